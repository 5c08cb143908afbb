"""The learning switch of learning_switch.py as an application of os-ken, OpenStack's successor of Ryu.

The framework speaks OpenFlow and keeps the connections, one thread for each; what is learnt and which rules go to a
switch is here. Any other application of the framework can stand in this one's place. Wants os-ken:

    make .venv-sdn/ready                      # in an environment of its own: python/sdn.in
    .venv-sdn/bin/python examples/sdn/osken_switch.py --switches 7
"""

import sys

from os_ken import cfg
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, DEAD_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib.mac import haddr_to_bin
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3

OPTIONS = [cfg.IntOpt("switches", default=1, help="say so when that many are connected")]


class LearningSwitch(OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.port_of = {}  # by switch: by address

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def on_features(self, event):
        switch = event.msg.datapath
        self.port_of[switch.id] = {}
        protocol, parser = switch.ofproto, switch.ofproto_parser
        to_controller = parser.OFPActionOutput(protocol.OFPP_CONTROLLER, protocol.OFPCML_NO_BUFFER)
        self.add_rule(switch, 0, parser.OFPMatch(), to_controller)
        print("switch %d connected" % switch.id, flush=True)
        if len(self.port_of) == cfg.CONF.switches:
            print("all %d switches connected" % len(self.port_of), flush=True)

    @set_ev_cls(ofp_event.EventOFPStateChange, DEAD_DISPATCHER)
    def on_leave(self, event):
        self.port_of.pop(event.datapath.id, None)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def on_frame(self, event):
        message = event.msg
        switch, in_port = message.datapath, message.match["in_port"]
        frame = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        if frame is None or switch.id not in self.port_of:
            return
        known = self.port_of[switch.id]
        if not haddr_to_bin(frame.src)[0] & 1:
            known[frame.src] = in_port
        protocol, parser = switch.ofproto, switch.ofproto_parser
        port = known.get(frame.dst, protocol.OFPP_FLOOD)
        if port == in_port:
            return
        action = parser.OFPActionOutput(port)
        if port != protocol.OFPP_FLOOD:
            match = parser.OFPMatch(in_port=in_port, eth_src=frame.src, eth_dst=frame.dst)
            self.add_rule(switch, 1, match, action)
        out = parser.OFPPacketOut(switch, protocol.OFP_NO_BUFFER, in_port, [action], message.data)
        switch.send_msg(out)

    def add_rule(self, switch, priority, match, action):
        protocol, parser = switch.ofproto, switch.ofproto_parser
        apply = parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, [action])
        rule = parser.OFPFlowMod(switch, priority=priority, match=match, instructions=[apply])
        switch.send_msg(rule)


if __name__ == "__main__":
    cfg.CONF.register_cli_opts(OPTIONS)
    cfg.CONF(args=sys.argv[1:], prog="osken_switch.py", description=__doc__.splitlines()[0])
    # The framework loads applications from modules, by name.
    AppManager.run_apps(["os_ken.controller.ofp_handler", "osken_switch"])
