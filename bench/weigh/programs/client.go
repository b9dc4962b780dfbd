// A client of HTTP that asks a server in its own process 200 times.
package main

import (
	"io"
	"net/http"
	"net/http/httptest"
)

func main() {
	answers := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }
	server := httptest.NewServer(http.HandlerFunc(answers))
	defer server.Close()
	for range 200 {
		answer, err := http.Get(server.URL)
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}
