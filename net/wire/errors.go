package wire

import "errors"

var (
	// ErrShort: fewer bytes than a frame header. Not a fault of the peer; read
	// on.
	ErrShort = errors.New("wire: header is not complete")

	// ErrMalformed: the bytes are not a valid frame or body.
	ErrMalformed = errors.New("wire: malformed")

	// ErrFrameTooLarge: the length field is above the connection's limit.
	ErrFrameTooLarge = errors.New("wire: frame too large")

	// ErrUnsupportedOp: the op has no number in this build's table.
	ErrUnsupportedOp = errors.New("wire: unsupported operation")

	// ErrUnsupportedVersion: the op is known, its version is not.
	ErrUnsupportedVersion = errors.New("wire: unsupported version")

	// ErrInvalidTopic: a name that no topic can have, see [CheckTopicName].
	ErrInvalidTopic = errors.New("wire: invalid topic name")
)

// CodeOf is the code with which a broker answers an error of this package;
// [CodeInternal] for an error that is not one.
func CodeOf(err error) Code {
	switch {
	case err == nil:
		return CodeNone
	case errors.Is(err, ErrMalformed), errors.Is(err, ErrShort):
		return CodeMalformedFrame
	case errors.Is(err, ErrFrameTooLarge):
		return CodeFrameTooLarge
	case errors.Is(err, ErrUnsupportedOp):
		return CodeUnsupportedOp
	case errors.Is(err, ErrUnsupportedVersion):
		return CodeUnsupportedVersion
	case errors.Is(err, ErrInvalidTopic):
		return CodeInvalidTopic
	}
	return CodeInternal
}
