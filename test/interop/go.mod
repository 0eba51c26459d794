module github.com/mqd-broker/mqd/test/interop

go 1.26.0

replace github.com/mqd-broker/mqd => ../..

require (
	github.com/mqd-broker/mqd v0.0.0-00010101000000-000000000000
	github.com/twmb/franz-go v1.22.3
	github.com/twmb/franz-go/pkg/kmsg v1.15.1
)

require (
	github.com/klauspost/compress v1.20.4 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	golang.org/x/sys v0.50.0 // indirect
)
