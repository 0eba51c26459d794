package kafka

import (
	"slices"
	"strconv"

	"github.com/mqd-broker/mqd/broker/catalog"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeConfigs, key 32, versions 0 to 4.
//
// A topic has everything that Kafka's have, whether it means something here or not,
// because tools write back what they have read. The broker has what tools look for.
//
//	v1  source and synonyms
//	v3  type and documentation

// configsEstimate is the size, in bytes, by which the description of a resource is
// estimated.
const configsEstimate = 8 << 10

func (p *peer) describeConfigs(h *header) {
	q := &kmsg.DescribeConfigsRequest{}
	if !p.decode(h, q) {
		return
	}
	s, image := p.srv, p.srv.b.Image()
	a := kmsg.NewPtrDescribeConfigsResponse()
	a.SetVersion(h.version)
	p.began(0, 0)
	p.alone = true
	p.answer(h.correlation, len(q.Resources)*configsEstimate, func() kmsg.Response {
		for i := range q.Resources {
			a.Resources = append(a.Resources, s.describeResource(image, &q.Resources[i], q))
		}
		return a
	})
}

// describeResource describes a topic or the broker.
func (s *Server) describeResource(image *catalog.Image, r *kmsg.DescribeConfigsRequestResource, q *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResource {
	a := kmsg.NewDescribeConfigsResponseResource()
	a.ResourceType, a.ResourceName = r.ResourceType, r.ResourceName
	refuse := func(code int16, text string) kmsg.DescribeConfigsResponseResource {
		a.ErrorCode, a.ErrorMessage = code, &text
		return a
	}
	wanted := func(name string) bool { return r.ConfigNames == nil || slices.Contains(r.ConfigNames, name) }
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeTopic:
		if err := catalog.CheckName(r.ResourceName); err != nil {
			return refuse(codeInvalidTopic, err.Error())
		}
		t := image.ByName(r.ResourceName)
		if t == nil {
			return refuse(codeUnknownTopic, "no topic has this name")
		}
		for i := range configs {
			c := &configs[i]
			if value, own := c.of(&t.Config); wanted(c.name) {
				a.Configs = append(a.Configs, described(c.name, value, c.kind, sourceOf(own), c.own == "", c.about(), q))
			}
		}
	case kmsg.ConfigResourceTypeBroker:
		if r.ResourceName != "" && r.ResourceName != strconv.Itoa(int(nodeID)) {
			return refuse(codeInvalidRequest, "there is one broker, 1")
		}
		for i := range brokerConfigs {
			c := &brokerConfigs[i]
			if wanted(c.name) {
				a.Configs = append(a.Configs, described(c.name, c.value(s), c.kind, kmsg.ConfigSourceStaticBrokerConfig, true, "", q))
			}
		}
	default:
		return refuse(codeInvalidRequest, "topics and brokers can be described")
	}
	return a
}

func described(name, value string, kind kmsg.ConfigType, source kmsg.ConfigSource, readOnly bool, about string, q *kmsg.DescribeConfigsRequest) kmsg.DescribeConfigsResponseResourceConfig {
	d := kmsg.NewDescribeConfigsResponseResourceConfig()
	d.Name, d.Value, d.ReadOnly, d.IsDefault = name, &value, readOnly, source == kmsg.ConfigSourceDefaultConfig
	d.Source, d.ConfigType = source, kind
	if q.IncludeSynonyms {
		y := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		y.Name, y.Value, y.Source = name, &value, source
		d.ConfigSynonyms = append(d.ConfigSynonyms, y)
	}
	if q.IncludeDocumentation && about != "" {
		d.Documentation = &about
	}
	return d
}
