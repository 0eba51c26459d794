package kafka

import "github.com/twmb/franz-go/pkg/kmsg"

// DescribeCluster, key 60, versions 0 to 1: the one broker. Version 1 can ask for
// controllers instead of brokers, which are the same here.

func (p *peer) describeCluster(h *header) {
	var q kmsg.DescribeClusterRequest
	if !p.decode(h, &q) {
		return
	}
	a := kmsg.NewPtrDescribeClusterResponse()
	a.SetVersion(h.version)
	a.ClusterID, a.ControllerID = clusterID(p.srv.b.Node().ID()), nodeID
	if h.version >= 1 {
		a.EndpointType = q.EndpointType
	}
	b := kmsg.NewDescribeClusterResponseBroker()
	b.NodeID, b.Host, b.Port = nodeID, p.srv.host, p.srv.port
	a.Brokers = append(a.Brokers, b)
	p.reply(h.correlation, a)
}
