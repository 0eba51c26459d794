module github.com/mqd-broker/mqd

go 1.26.0

require (
	github.com/klauspost/compress v1.20.4
	github.com/pawelgaczynski/giouring v0.0.0-20230826085535-69588b89acb9
	github.com/pierrec/lz4/v4 v4.1.33
	golang.org/x/sys v0.50.0
	pgregory.net/rapid v1.3.0
)
