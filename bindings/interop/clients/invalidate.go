// Invalidates keys or tags of a larder cache on all its nodes: level 1 of docs/wire.md, by the standard library alone.
//
//	invalidate redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] NAMESPACE key VIEW:KEY…
//	invalidate redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE] NAMESPACE tag TAG…
//
// Exit status 0: Redis has confirmed it. 1: it may have happened or not, call again. 2: a mistake, nothing was sent.
package main

import (
	"bufio"
	"cmp"
	"crypto/rand"
	_ "embed"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

//go:embed advance.lua
var advance string

func exit(status int, why any) {
	fmt.Fprintln(os.Stderr, "invalidate:", why)
	os.Exit(status)
}

func main() {
	if len(os.Args) < 5 {
		exit(2, "usage: invalidate URL NAMESPACE key|tag WHAT…")
	}
	namespace, what := os.Args[2], os.Args[3]
	server, err := url.Parse(os.Args[1])
	if err != nil || server.Scheme != "redis" || server.Hostname() == "" {
		exit(2, "the address must be redis://HOST:PORT/DATABASE")
	}
	database := cmp.Or(strings.TrimPrefix(server.Path, "/"), "0")
	if number, err := strconv.ParseUint(database, 10, 31); err != nil || fmt.Sprint(number) != database {
		exit(2, "the number of the database is wrong")
	}
	if namespace == "" || strings.Contains(namespace, ":") {
		exit(2, `a namespace is not empty and has no ":"`)
	}
	prefix, message := namespace+":", []byte{1, 1}
	if what == "tag" {
		prefix, message = "!", []byte{1, 2}
	}
	message = append(message, make([]byte, 16)...)
	rand.Read(message[2:])
	var names []string
	for _, each := range os.Args[4:] {
		switch {
		case what == "key" && strings.Index(each, ":") < 1:
			exit(2, fmt.Sprintf("a key is VIEW:KEY, unlike %q", each))
		case what == "tag" && (len(each) > 255 || !utf8.ValidString(each)):
			exit(2, fmt.Sprintf("a tag is UTF-8 and has at most 255 bytes, unlike %q", each))
		case what != "key" && what != "tag":
			exit(2, "give key or tag")
		}
		names = append(names, prefix+each)
		message = binary.LittleEndian.AppendUint32(message, uint32(len(prefix+each)))
		message = append(message, prefix+each...)
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(server.Hostname(), cmp.Or(server.Port(), "6379")), 5*time.Second)
	if err != nil {
		exit(1, err)
	}
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	replies := bufio.NewReader(conn)
	// An error of any command ends the program, so that the next one is not sent.
	send := func(command ...string) string {
		request := fmt.Sprintf("*%d\r\n", len(command))
		for _, argument := range command {
			request += fmt.Sprintf("$%d\r\n%s\r\n", len(argument), argument)
		}
		_, err := io.WriteString(conn, request)
		reply := ""
		if err == nil {
			reply, err = read(replies)
		}
		if err != nil {
			exit(1, fmt.Errorf("not confirmed, call again: %w", err))
		}
		return reply
	}
	if password, has := server.User.Password(); has {
		send("AUTH", cmp.Or(server.User.Username(), "default"), password)
	}
	// A cluster has a channel for each primary.
	if hello := send("HELLO"); strings.Contains(hello, " mode cluster ") || strings.Contains(hello, " mode sentinel ") {
		exit(2, "a cluster or a sentinel is not supported")
	}
	send("SELECT", database)
	channel := namespace + "::news:" + database
	if what == "key" {
		send(append([]string{"UNLINK"}, names...)...)
		send("PUBLISH", channel, string(message))
	} else {
		message = append(message, 0xff, 0xff, 0xff, 0xff)
		command := []string{"EVAL", advance, "1", namespace + "::ledger", "0", "", channel, string(message)}
		send(append(command, names...)...)
	}
}

// read returns the texts and numbers of a reply of RESP2, with spaces around them, or the error that it is.
func read(from *bufio.Reader) (string, error) {
	line, err := from.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimSpace(line[1:])
	count, _ := strconv.Atoi(rest)
	switch {
	case kind == '-':
		return "", fmt.Errorf("%s", rest)
	case kind == '$' && count >= 0:
		text := make([]byte, count+2)
		_, err = io.ReadFull(from, text)
		return string(text[:count]), err
	case kind == '*':
		all := " "
		for ; count > 0 && err == nil; count-- {
			one := ""
			one, err = read(from)
			all += one + " "
		}
		return all, err
	}
	return rest, nil
}
