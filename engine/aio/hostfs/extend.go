package hostfs

// zeroPiece is the size, in bytes, of the writes by which a file is extended.
const zeroPiece = 1 << 20

// extend writes zeros behind the end of a file that is shorter than size bytes.
func extend(f *File, size int64) error {
	at, err := f.Size()
	if err != nil || at >= size {
		return err
	}
	zeros := make([]byte, min(zeroPiece, size-at))
	for at < size {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
		if err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}
