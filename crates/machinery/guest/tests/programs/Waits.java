import java.io.InputStream;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.SocketTimeoutException;
import java.nio.channels.Pipe;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.*;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/** Java's timed waits, one per thread; the same lines as `waits.c` prints. */
public class Waits {
    static long waitMs;

    static Object sleep() throws Exception { Thread.sleep(waitMs); return "done"; }

    static Object objectWait() throws Exception {
        Object monitor = new Object();
        long begun = System.nanoTime();
        synchronized (monitor) {
            // The wait may wake spuriously, according to its documentation.
            while (System.nanoTime() - begun < waitMs * 1_000_000L) monitor.wait(waitMs);
        }
        return "done";
    }

    static Object queuePoll() throws Exception {
        return new LinkedBlockingQueue<String>().poll(waitMs, TimeUnit.MILLISECONDS);
    }

    static Object conditionAwait() throws Exception {
        ReentrantLock lock = new ReentrantLock();
        var condition = lock.newCondition();
        lock.lock();
        long left = waitMs * 1_000_000L;
        while (left > 0) left = condition.awaitNanos(left);
        return left <= 0;
    }

    static Object parkUntil() {
        // The deadline is in whole milliseconds of the real-time clock. One more puts it at or
        // after the end of the wait.
        long deadline = System.currentTimeMillis() + waitMs + 1;
        while (System.currentTimeMillis() < deadline) LockSupport.parkUntil(deadline);
        return "done";
    }

    static Object futureGet() throws Exception {
        try {
            return new CompletableFuture<String>().get(waitMs, TimeUnit.MILLISECONDS);
        } catch (TimeoutException expected) {
            return "timeout";
        }
    }

    static Object scheduled() throws Exception {
        ScheduledExecutorService service = Executors.newSingleThreadScheduledExecutor();
        try {
            return service.schedule(() -> "ran", waitMs, TimeUnit.MILLISECONDS).get();
        } finally {
            service.shutdownNow();
        }
    }

    static Object datagramTimeout() throws Exception {
        try (DatagramSocket socket = new DatagramSocket(0, InetAddress.getLoopbackAddress())) {
            socket.setSoTimeout((int) waitMs);
            socket.receive(new DatagramPacket(new byte[10], 10));
            return "data";
        } catch (SocketTimeoutException expected) {
            return "timeout";
        }
    }

    static Object acceptTimeout() throws Exception {
        try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            socket.setSoTimeout((int) waitMs);
            return socket.accept();
        } catch (SocketTimeoutException expected) {
            return "timeout";
        }
    }

    static Object selectorSelect() throws Exception {
        Selector selector = Selector.open();
        Pipe pipe = Pipe.open();
        pipe.source().configureBlocking(false);
        pipe.source().register(selector, SelectionKey.OP_READ);
        return selector.select(waitMs);
    }

    static Object processWait() throws Exception {
        return new ProcessBuilder("sleep", "" + waitMs / 1000.0).start().waitFor();
    }

    public static void main(String[] args) throws Exception {
        waitMs = Long.parseLong(args[1]);
        Map<String, Callable<Object>> cases = new LinkedHashMap<>();
        cases.put("sleep", Waits::sleep);
        cases.put("object_wait", Waits::objectWait);
        cases.put("queue_poll", Waits::queuePoll);
        cases.put("condition_await", Waits::conditionAwait);
        cases.put("park_until", Waits::parkUntil);
        cases.put("future_get", Waits::futureGet);
        cases.put("scheduled", Waits::scheduled);
        cases.put("datagram_timeout", Waits::datagramTimeout);
        cases.put("accept_timeout", Waits::acceptTimeout);
        cases.put("selector_select", Waits::selectorSelect);
        cases.put("process_wait", Waits::processWait);
        CountDownLatch gate = new CountDownLatch(1);
        Thread[] threads = new Thread[cases.size()];
        int next = 0;
        for (var one : cases.entrySet()) {
            Thread thread = threads[next++] = new Thread(() -> {
                Object result;
                long begun = 0;
                try {
                    gate.await();
                    begun = System.nanoTime();
                    result = one.getValue().call();
                } catch (Exception error) {
                    result = error.getClass().getName();
                }
                long lasted = System.nanoTime() - begun;
                System.out.printf("java_%s ret=%s want_ns=%d virtual_ns=%d%n", one.getKey(), result, waitMs * 1_000_000L, lasted);
            });
            thread.start();
        }
        try (InputStream stream = Files.newInputStream(Path.of(args[0]))) {
            System.out.println("ready");
            while (stream.read() >= 0) {}
        }
        gate.countDown();
        for (Thread thread : threads) thread.join();
    }
}
