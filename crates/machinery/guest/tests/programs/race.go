// Goroutines, a lock, timers. Built with the race detector, which must report nothing.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

func main() {
	var mutex sync.Mutex
	var all sync.WaitGroup
	count := 0
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR1)
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < 5; j++ {
				time.Sleep(10 * time.Millisecond)
				mutex.Lock()
				count++
				mutex.Unlock()
			}
		}()
	}
	begun := time.Now()
	syscall.Kill(syscall.Getpid(), syscall.SIGUSR1)
	<-signals
	select {
	case <-make(chan int):
	case <-time.After(300 * time.Millisecond):
	}
	all.Wait()
	early := time.Since(begun) < 300*time.Millisecond
	fmt.Printf("count=%d early=%v\n", count, early)
}
