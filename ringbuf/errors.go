package ringbuf

import "errors"

// ErrInboxFull says that an [Inbox] holds as many messages as it can. The
// message was not taken. The poster's way out is to report overload to whoever
// asked, not to wait.
var ErrInboxFull = errors.New("inbox is full")
