package main

// differences are what mqd answers otherwise than Apache Kafka, and why. docs/kafka.md
// tells of them.
var differences = map[string]struct{ answer, why string }{
	"CreateTopics: a name that differs by a dot for an underscore": {"NONE", "metrics have names of topics in labels, where nothing collides"},
	"CreateTopics: no policy":                                      {"INVALID_CONFIG", "what keeps everything says so by its retention"},
	"CreateTopics: twice in one request":                           {"INVALID_REQUEST, INVALID_REQUEST", "each is refused on its own row; Apache Kafka has one row for both"},
	"CreateTopics: two in-sync copies of one":                      {"INVALID_CONFIG", "it could never be met by one broker, and is refused when it is asked for"},
	"DeleteGroups: no group":                                       {"INVALID_GROUP_ID", "a group without a name cannot have been made"},
	"DeleteRecords: of a compacted topic":                          {"NONE 0", "deleting is the administrator's, whatever else cleans the topic"},
	"DeleteTopics: twice in one request":                           {"INVALID_REQUEST, INVALID_REQUEST", "each is refused on its own row; Apache Kafka has one row for both"},
	"DescribeGroups: no group":                                     {`NONE, state "Dead", type "", protocol "", 0 members`, "a group without a name cannot have been made"},
	"Fetch: at -1":                                                 {"OFFSET_OUT_OF_RANGE, 0 batches, end 6, start 0", "the real end and start, which say where to go on"},
	"Fetch: at most -1 bytes":                                      {"NONE, 1 batches, end 6, start 0", "as with 0, one batch; at Apache Kafka it is an error of the server"},
	"Fetch: before what was deleted":                               {"NONE 3, then OFFSET_OUT_OF_RANGE, 0 batches, end 6, start 3, then NONE, 2 batches, end 6, start 3", "the real end and start, which say where to go on"},
	"Fetch: behind the end":                                        {"OFFSET_OUT_OF_RANGE, 0 batches, end 6, start 0", "the real end and start, which say where to go on"},
	"IncrementalAlterConfigs: a list emptied":                      {"INVALID_CONFIG", "what keeps everything says so by its retention"},
	"IncrementalAlterConfigs: an unknown operation":                {"INVALID_CONFIG", "the request is wrong, and not the server"},
	"InitProducerId: an id without an epoch":                       {"NONE", "every request gets a fresh id, whatever it brings"},
	"LeaveGroup: no group":                                         {"INVALID_GROUP_ID, member INVALID_GROUP_ID", "the code stands beside each member too"},
	"OffsetCommit: no group":                                       {"INVALID_GROUP_ID", "there is no group without a name, which at Apache Kafka very old clients use"},
	"OffsetCommit: offset -1":                                      {"INVALID_REQUEST", "nobody can go on at -1"},
	"Produce: a base offset other than 0":                          {"NONE 0", "the broker gives offsets, whatever a batch brings"},
	"Produce: a batch of long ago again":                           {"NONE 0, NONE 2, NONE 4, NONE 6, NONE 8, NONE 10, DUPLICATE_SEQUENCE_NUMBER -1", "it says what the batch is; producers take both for a failure that they cannot mend"},
	"Produce: an unknown codec":                                    {"UNSUPPORTED_COMPRESSION_TYPE -1", "the request is wrong, and not the server"},
	"Produce: bytes behind the batch":                              {"INVALID_RECORD -1", "what is no batch is refused, and not left out in silence"},
	"Produce: in a transaction that is none":                       {"INVALID_RECORD -1", "there are no transactions"},
	"Produce: magic 3":                                             {"INVALID_RECORD -1", "the form of the batch is not known; whether it is corrupt cannot be told"},
	"Produce: null":                                                {"INVALID_RECORD -1", "refused for one partition; Apache Kafka ends the connection"},
	"Produce: without keys to a compacted topic":                   {"NONE 0", "records are not looked into when they come"},
	"a member: DescribeGroups when it has left":                    {`NONE, state "Dead", type "", protocol "", 0 members`, "a group that has neither members nor offsets is gone"},
}
