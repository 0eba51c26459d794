package mqdtest_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/mqd-broker/mqd/client/mqdtest"
)

// Real messages, taken from a broker with
//
//	mqd consume orders -o jsonl > testdata/orders.json
//
// are given to a program, and what it has made of them is written to a file that can be
// compared with one that is kept.
func ExampleBroker_Replay() {
	t := &exampleT{}
	defer t.end()
	dir := t.TempDir()
	orders, invoices := filepath.Join(dir, "orders.json"), filepath.Join(dir, "invoices.json")
	_ = os.WriteFile(orders, []byte(`{"partition":0,"offset":8,"timestamp":1800000000000,"key":"o-1","value":"a pump","headers":[]}
`), 0o600)

	b := mqdtest.New(t)
	b.CreateTopic("orders", 1)
	b.CreateTopic("invoices", 1)
	b.Replay("orders", orders)
	for _, m := range b.ReadAll("orders") { // the program
		m.Value = append([]byte("to pay: "), m.Value...)
		b.Send("invoices", m.Record)
	}
	b.Record("invoices", invoices)
	fmt.Printf("%s", must(os.ReadFile(invoices)))
	// Output:
	// {"partition":0,"offset":0,"timestamp":1800000000000,"key":"o-1","value":"to pay: a pump","headers":[]}
}
