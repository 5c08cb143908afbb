// The real-time link of `timeloom bench net`, for ns-3 3.37: two routers with a point-to-point link
// between them, each connected to a namespace by a TAP device whose descriptor is inherited. Same
// rate, delay and queue as crates/evidence/bench/src/net/realtime.rs.
//
// ns-3's tap-bridge is not used: Debian's package lacks the helper program that it starts.
// FdNetDevice reads and writes frames in the same way (a reader thread, one event per frame), with
// no CSMA channel in between.
//
// Prints "ready" and runs for --seconds.

#include <cstdio>

#include "ns3/core-module.h"
#include "ns3/fd-net-device-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace
{

uint32_t
Join(Ptr<Node> node, int fd, const char* address)
{
    Ptr<FdNetDevice> device = CreateObject<FdNetDevice>();
    device->SetAddress(Mac48Address::Allocate());
    device->SetFileDescriptor(fd);
    node->AddDevice(device);
    Ptr<Ipv4> ip = node->GetObject<Ipv4>();
    uint32_t interface = ip->AddInterface(device);
    ip->AddAddress(interface, Ipv4InterfaceAddress(Ipv4Address(address), Ipv4Mask("/30")));
    ip->SetUp(interface);
    return interface;
}

} // namespace

int
main(int argc, char* argv[])
{
    int left = -1;
    int right = -1;
    double gbps = 1;
    double delayMs = 1;
    double seconds = 10;
    CommandLine line;
    line.AddValue("left", "descriptor of the TAP device on the left", left);
    line.AddValue("right", "descriptor of the TAP device on the right", right);
    line.AddValue("gbps", "rate of the link", gbps);
    line.AddValue("delay", "its delay in ms", delayMs);
    line.AddValue("seconds", "how long to run", seconds);
    line.Parse(argc, argv);

    GlobalValue::Bind("SimulatorImplementationType", StringValue("ns3::RealtimeSimulatorImpl"));
    GlobalValue::Bind("ChecksumEnabled", BooleanValue(true));

    NodeContainer routers;
    routers.Create(2);
    InternetStackHelper stack;
    stack.Install(routers);
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(gbps * 1e9))));
    link.SetChannelAttribute("Delay", TimeValue(Seconds(delayMs / 1e3)));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1000p"));
    NetDeviceContainer ends = link.Install(routers);
    Ipv4AddressHelper addresses("10.9.0.0", "255.255.255.252");
    addresses.Assign(ends);

    Join(routers.Get(0), left, "10.0.0.2");
    Join(routers.Get(1), right, "10.0.0.5");
    Ipv4StaticRoutingHelper routing;
    routing.GetStaticRouting(routers.Get(0)->GetObject<Ipv4>())
        ->AddNetworkRouteTo(Ipv4Address("10.0.0.4"),
                            Ipv4Mask("/30"),
                            Ipv4Address("10.9.0.2"),
                            1);
    routing.GetStaticRouting(routers.Get(1)->GetObject<Ipv4>())
        ->AddNetworkRouteTo(Ipv4Address("10.0.0.0"),
                            Ipv4Mask("/30"),
                            Ipv4Address("10.9.0.1"),
                            1);

    Simulator::Schedule(Seconds(0), [] {
        std::printf("ready\n");
        std::fflush(stdout);
    });
    Simulator::Stop(Seconds(seconds));
    Simulator::Run();
    Simulator::Destroy();
    return 0;
}
