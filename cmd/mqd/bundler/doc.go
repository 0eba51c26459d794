// Package bundler has the verb that gathers what a report of trouble needs: mqd debug
// bundle.
//
// A bundle is one tar.gz. What cannot be had is no error: the manifest names it with the
// reason, so that a bundle of a broker that is down has everything but what only the
// broker could tell. Sizes are bounded, message contents are not looked at, and what
// looks like a secret is hidden ([Hide]).
package bundler
