// Runs cases against the server whose address is in the arguments, and prints one line of JSON for each.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"
)

type outcome struct {
	Client   string `json:"client"`
	Protocol int    `json:"protocol,omitempty"`
	Case     string `json:"case"`
	Ms       int64  `json:"ms"`
	Error    string `json:"error,omitempty"`
}

// A use of a client before and after the restart of the server.
type survivor struct {
	client   string
	protocol int
	use      func(context.Context) error
}

type suite struct {
	address   string
	keys      int
	survivors []survivor
}

// A name that no other case uses.
func (s *suite) key() string {
	s.keys++
	return fmt.Sprintf("go:%d", s.keys)
}

// Runs a case. It has passed if it returns no error.
func (s *suite) test(client string, protocol int, name string, run func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	started := time.Now()
	result := outcome{Client: client, Protocol: protocol, Case: name}
	if err := run(ctx); err != nil {
		result.Error = err.Error()
	}
	result.Ms = time.Since(started).Milliseconds()
	emit(result)
}

// Calls `use` before the restart, and after it until it succeeds: a connection that broke may cost an error.
func (s *suite) survives(client string, protocol int, use func(context.Context) error) {
	s.survivors = append(s.survivors, survivor{client, protocol, use})
}

// Restarts the server between two uses of each client.
func (s *suite) finish() {
	for _, survivor := range s.survivors {
		if err := survivor.use(context.Background()); err != nil {
			fmt.Fprintf(os.Stderr, "before the restart, %s: %v\n", survivor.client, err)
		}
	}
	emit(map[string]bool{"restart": true})
	if answer, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil || answer != "restarted\n" {
		panic(answer)
	}
	for _, survivor := range s.survivors {
		s.test(survivor.client, survivor.protocol, "restart", func(ctx context.Context) error {
			return eventually(func() error { return survivor.use(ctx) })
		})
	}
}

func emit(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// Calls a function until it succeeds; its last error is the error.
func eventually(use func() error) error {
	deadline := time.Now().Add(4 * time.Second)
	for {
		err := use()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// The error of an operation, or of a result that is not the expected one.
func equal[T any](found T, err error, expected T) error {
	if err == nil && !reflect.DeepEqual(found, expected) {
		err = fmt.Errorf("%v instead of %v", found, expected)
	}
	return err
}

// The first error.
func all(results ...error) error {
	for _, err := range results {
		if err != nil {
			return err
		}
	}
	return nil
}

var errNoFailure = errors.New("it did not fail")
