module github.com/mqd-broker/mqd

go 1.26
