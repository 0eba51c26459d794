// Package report proves that the page of a result opens in a browser without a
// network, runs without errors and shows its curves. Where there is no Chromium the
// test is skipped.
//
// It is a module of its own so that the browser's driver stays out of mqd's. Run it
// with go test ./... in this directory.
package report
