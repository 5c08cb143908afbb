// Resolves names with the resolver of Go.
package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

func main() {
	name, _ := os.Hostname()
	fmt.Println("hostname", name)
	for _, name := range os.Args[1:] {
		before := time.Now()
		all, err := net.LookupHost(name)
		took := time.Since(before)
		if err != nil {
			all = []string{"unknown"}
		}
		fmt.Println(name, strings.Join(all, " "))
		if took >= time.Second {
			fmt.Println(name, "took", took)
		}
	}
}
