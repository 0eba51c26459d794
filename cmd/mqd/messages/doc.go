// Package messages has the forms in which mqd produce reads messages and mqd consume
// writes them: lines, and lines of JSON.
package messages
