// The dumbbell of `timeloom bench net`, for ns-3 3.37, for comparison. Same links, queues, TCP
// parameters, starts and window as crates/evidence/bench/src/net/model.rs; change both together.
//
// Prints one line of JSON: packet hops, the CPU and wall time of the run (without building), and
// the goodput of each flow within the window.

#include <cstdint>
#include <cstdio>
#include <ctime>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace
{

uint64_t g_hops = 0;

void
CountHop(Ptr<const Packet>)
{
    ++g_hops;
}

double
Seconds_of(clockid_t clock)
{
    timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

} // namespace

int
main(int argc, char** argv)
{
    uint32_t flows = 16;
    uint32_t hosts = 64;
    uint32_t buffer = 1000;
    double warm = 0.1;
    double window = 0.1;
    CommandLine cmd;
    cmd.AddValue("flows", "TCP flows", flows);
    cmd.AddValue("hosts", "hosts on each side", hosts);
    cmd.AddValue("buffer", "packets that may wait for a link", buffer);
    cmd.AddValue("warm", "seconds before the window", warm);
    cmd.AddValue("window", "seconds measured", window);
    cmd.Parse(argc, argv);

    const uint32_t segment = 1448;
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpNewReno")));
    Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TypeId::LookupByName("ns3::TcpPrrRecovery")));
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
    Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(2048 * segment));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(2048 * segment));
    Config::SetDefault("ns3::DropTailQueue<Packet>::MaxSize",
                       QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, buffer)));

    NodeContainer left;
    NodeContainer right;
    NodeContainer routers;
    left.Create(hosts);
    right.Create(hosts);
    routers.Create(2);
    InternetStackHelper stack;
    stack.InstallAll();

    PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", StringValue("1Gbps"));
    access.SetChannelAttribute("Delay", StringValue("1ms"));
    PointToPointHelper bottleneck;
    bottleneck.SetDeviceAttribute("DataRate", StringValue("10Gbps"));
    bottleneck.SetChannelAttribute("Delay", StringValue("1us"));

    TrafficControlHelper control;
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.0.0.0", "255.255.255.252");
    auto connect = [&](PointToPointHelper& link, Ptr<Node> a, Ptr<Node> b) {
        NetDeviceContainer devices = link.Install(a, b);
        Ipv4InterfaceContainer interfaces = addresses.Assign(devices);
        // The device's own queue is the only one, as in our model.
        control.Uninstall(devices);
        addresses.NewNetwork();
        for (uint32_t end = 0; end < 2; ++end)
        {
            devices.Get(end)->TraceConnectWithoutContext("PhyRxEnd", MakeCallback(&CountHop));
        }
        return interfaces;
    };
    connect(bottleneck, routers.Get(0), routers.Get(1));
    std::vector<Ipv4InterfaceContainer> ends;
    for (uint32_t host = 0; host < hosts; ++host)
    {
        connect(access, left.Get(host), routers.Get(0));
        ends.push_back(connect(access, right.Get(host), routers.Get(1)));
    }
    Ipv4GlobalRoutingHelper::PopulateRoutingTables();

    std::vector<Ptr<PacketSink>> sinks;
    for (uint32_t flow = 0; flow < flows; ++flow)
    {
        const uint32_t host = flow % hosts;
        const uint16_t port = 5000 + flow;
        BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(ends[host].GetAddress(0), port));
        source.SetAttribute("SendSize", UintegerValue(segment));
        // Staggered: with simultaneous starts, a drop-tail queue would penalise the last flow.
        source.Install(left.Get(host)).Start(NanoSeconds(flow * 370000));
        PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
        ApplicationContainer application = sink.Install(right.Get(host));
        application.Start(Seconds(0));
        sinks.push_back(DynamicCast<PacketSink>(application.Get(0)));
    }

    std::vector<uint64_t> before(flows);
    Simulator::Schedule(Seconds(warm), [&] {
        for (uint32_t flow = 0; flow < flows; ++flow)
        {
            before[flow] = sinks[flow]->GetTotalRx();
        }
    });
    Simulator::Stop(Seconds(warm + window));
    const double cpu = Seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    const double wall = Seconds_of(CLOCK_MONOTONIC);
    Simulator::Run();
    const double cpuUsed = Seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    const double wallUsed = Seconds_of(CLOCK_MONOTONIC) - wall;

    std::printf("{\"hops\":%llu,\"cpu_s\":%.6f,\"wall_s\":%.6f,\"goodput_bps\":[",
                static_cast<unsigned long long>(g_hops),
                cpuUsed,
                wallUsed);
    for (uint32_t flow = 0; flow < flows; ++flow)
    {
        std::printf("%s%.0f", flow ? "," : "", (sinks[flow]->GetTotalRx() - before[flow]) * 8 / window);
    }
    std::printf("]}\n");
    return 0;
}
