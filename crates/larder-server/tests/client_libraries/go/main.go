// All cases of the clients for Go.

package main

import (
	"net"
	"os"
)

func main() {
	s := &suite{address: net.JoinHostPort(os.Args[1], os.Args[2])}
	goRedisCases(s)
	redsyncCases(s)
	rueidisCases(s)
	s.finish()
}
