// Package halfopen cuts a network under a real broker: the peers of some of its
// connections vanish without a word, as when a machine loses its power or a firewall
// forgets a connection. Broker and peers are in network namespaces of their own.
package halfopen
