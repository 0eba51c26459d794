// Package messages has the forms in which mqd produce reads messages and mqd consume
// writes them, and mqdtest both: lines, and lines of JSON.
package messages
