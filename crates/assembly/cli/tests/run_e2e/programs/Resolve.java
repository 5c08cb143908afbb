import java.net.InetAddress;
import java.net.UnknownHostException;

/** Resolves names with the resolver of Java. */
class Resolve {
    public static void main(String[] names) throws Exception {
        System.out.println("hostname " + InetAddress.getLocalHost().getHostName());
        for (String name : names) {
            long before = System.nanoTime();
            String said = name;
            try {
                for (InetAddress one : InetAddress.getAllByName(name))
                    said += " " + one.getHostAddress();
            } catch (UnknownHostException e) {
                said += " unknown";
            }
            long took = System.nanoTime() - before;
            System.out.println(said);
            if (took >= 1_000_000_000L) System.out.println(name + " took " + took);
        }
    }
}
