package report

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// validator holds a value against a JSON Schema, of which it knows the words that
// ours has; another word is a finding as well.
type validator struct {
	root map[string]any
	bad  []string
}

func (v *validator) fail(at, format string, args ...any) {
	v.bad = append(v.bad, at+": "+fmt.Sprintf(format, args...))
}

func (v *validator) check(at string, schema map[string]any, value any) {
	for word, arg := range schema {
		switch word {
		case "$schema", "$id", "$defs", "title", "description", "format", "required", "additionalProperties":
		case "$ref":
			name := strings.TrimPrefix(arg.(string), "#/$defs/")
			def, ok := v.root["$defs"].(map[string]any)[name].(map[string]any)
			if !ok {
				v.fail(at, "no definition %q", name)
				continue
			}
			v.check(at, def, value)
		case "type":
			v.kind(at, arg, value)
		case "const":
			if !reflect.DeepEqual(arg, value) {
				v.fail(at, "%v, expected %v", value, arg)
			}
		case "enum":
			if !slices.ContainsFunc(arg.([]any), func(a any) bool { return reflect.DeepEqual(a, value) }) {
				v.fail(at, "%v, expected one of %v", value, arg)
			}
		case "minimum":
			if n, ok := value.(float64); ok && n < arg.(float64) {
				v.fail(at, "%v is below %v", n, arg)
			}
		case "items":
			all, _ := value.([]any) // of another kind: type says so
			for i, item := range all {
				v.check(fmt.Sprintf("%s[%d]", at, i), arg.(map[string]any), item)
			}
		case "properties":
			v.properties(at, schema, value)
		default:
			v.fail(at, "the schema has the word %q, which this test does not know", word)
		}
	}
}

// kind checks the word "type", a name or a list of them.
func (v *validator) kind(at string, arg, value any) {
	names, ok := arg.([]any)
	if !ok {
		names = []any{arg}
	}
	if !slices.ContainsFunc(names, func(name any) bool {
		n, number := value.(float64)
		switch name {
		case "integer":
			return number && n == float64(int64(n))
		case "number":
			return number
		case "string":
			_, ok = value.(string)
		case "boolean":
			_, ok = value.(bool)
		case "array":
			_, ok = value.([]any)
		case "object":
			_, ok = value.(map[string]any)
		case "null":
			ok = value == nil
		}
		return ok
	}) {
		v.fail(at, "%T, expected %v", value, names)
	}
}

func (v *validator) properties(at string, schema map[string]any, value any) {
	object, ok := value.(map[string]any)
	if !ok {
		return // type says so
	}
	known := schema["properties"].(map[string]any)
	for name, field := range object {
		if s, ok := known[name].(map[string]any); ok {
			v.check(at+"."+name, s, field)
		} else if schema["additionalProperties"] == false {
			v.fail(at, "has the field %q, which the schema does not know", name)
		}
	}
	for _, name := range schema["required"].([]any) {
		if _, ok := object[name.(string)]; !ok {
			v.fail(at, "the field %q is missing", name)
		}
	}
}
