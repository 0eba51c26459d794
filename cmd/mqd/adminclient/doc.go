// Package adminclient has the verbs that speak to a broker's admin HTTP: mqd admin.
package adminclient
