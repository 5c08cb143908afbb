// Go's timed waits, one per goroutine; the same lines as `waits.c` prints. The
// binary is static and makes its system calls and clock reads without a C library.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"
)

var wait time.Duration

func sleep() string { time.Sleep(wait); return "done" }

func after() string { <-time.After(wait); return "done" }

func timer() string {
	select {
	case <-time.NewTimer(wait).C:
		return "timer"
	case <-make(chan int):
		return "other"
	}
}

func ticker() string {
	ticker := time.NewTicker(wait / 5)
	defer ticker.Stop()
	for i := 0; i < 5; i++ {
		<-ticker.C
	}
	return "five"
}

func contextDeadline() string {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	<-ctx.Done()
	return fmt.Sprint(errors.Is(ctx.Err(), context.DeadlineExceeded))
}

func afterFunc() string {
	var group sync.WaitGroup
	group.Add(1)
	time.AfterFunc(wait, group.Done)
	group.Wait()
	return "done"
}

func udpDeadline() string {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err.Error()
	}
	socket.SetReadDeadline(time.Now().Add(wait))
	_, _, err = socket.ReadFrom(make([]byte, 10))
	return fmt.Sprint(errors.Is(err, os.ErrDeadlineExceeded))
}

func acceptDeadline() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err.Error()
	}
	listener.(*net.TCPListener).SetDeadline(time.Now().Add(wait))
	_, err = listener.Accept()
	return fmt.Sprint(errors.Is(err, os.ErrDeadlineExceeded))
}

func dataArrives() string {
	one, other := net.Pipe()
	go func() { time.Sleep(wait); other.Write([]byte("abc")) }()
	one.SetReadDeadline(time.Now().Add(10 * wait))
	n, err := one.Read(make([]byte, 10))
	return fmt.Sprint(n, "/", err)
}

func pipeArrives() string {
	read, write, _ := os.Pipe()
	go func() { time.Sleep(wait); write.Write([]byte("abc")) }()
	n, err := read.Read(make([]byte, 10))
	return fmt.Sprint(n, "/", err)
}

func threadSleep() string {
	runtime.LockOSThread()
	time.Sleep(wait)
	return "done"
}

func command() string {
	return fmt.Sprint(exec.Command("sleep", strconv.FormatFloat(wait.Seconds(), 'f', -1, 64)).Run())
}

func commandCancelled() string {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	err := exec.CommandContext(ctx, "sleep", "100").Run()
	return fmt.Sprint(err != nil)
}

func main() {
	ms, _ := strconv.Atoi(os.Args[2])
	wait = time.Duration(ms) * time.Millisecond
	cases := map[string]func() string{
		"sleep": sleep, "after": after, "timer": timer, "ticker": ticker, "context": contextDeadline,
		"after_func": afterFunc, "udp_deadline": udpDeadline, "accept_deadline": acceptDeadline,
		"data_arrives": dataArrives, "pipe_arrives": pipeArrives, "thread_sleep": threadSleep,
		"command": command, "command_cancelled": commandCancelled,
	}
	gate, _ := os.Open(os.Args[1])
	fmt.Println("ready")
	io.ReadAll(gate)
	var group sync.WaitGroup
	for name, run := range cases {
		group.Add(1)
		go func() {
			defer group.Done()
			begun := time.Now()
			result := run()
			lasted := time.Since(begun)
			fmt.Printf("go_%s ret=%s want_ns=%d virtual_ns=%d\n", name, result, wait.Nanoseconds(), lasted.Nanoseconds())
		}()
	}
	// A goroutine that computes: the runtime preempts it by signals.
	stop := make(chan int)
	go func() {
		for i := 0; ; i++ {
			if i%1000000 == 0 {
				select {
				case <-stop:
					return
				default:
					time.Sleep(time.Millisecond)
				}
			}
		}
	}()
	group.Wait()
	close(stop)
}
