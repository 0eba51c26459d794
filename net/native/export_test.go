package native

// CodeOf is codeOf, for tests.
var CodeOf = codeOf
