// Package settings is the configuration of mqd serve: one table of settings, from
// which flags, environment variables, the file, help texts and documents are made,
// and the layers that give them values.
package settings
