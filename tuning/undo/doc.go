// Package undo changes files so that the change can be taken back, also after a kill
// or a power cut in the middle of it.
//
// Before anything is changed, a record of all changes with the old contents is
// written, synced and named. So a record that is there tells everything that may have
// been changed, and one that is not there means that nothing was. Which of its changes
// have been made is not recorded: the files tell. One that has the new content gets the
// old one back, one that has the old one is done, and one that has neither was changed
// by somebody else since and is left, unless the caller insists. That makes taking back
// something that may be repeated, from any state.
package undo
