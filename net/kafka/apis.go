package kafka

// API is a row of the table of what is served.
type API struct {
	Key  int16
	Name string
	// Min and Max are the versions that are served and advertised, Flexible the first
	// one with compact lengths and tagged fields.
	Min, Max, Flexible int16
	// Note says what of it works otherwise than in Apache Kafka; "" for nothing.
	Note string
}

// The keys.
const (
	keyProduce        = 0
	keyFetch          = 1
	keyListOffsets    = 2
	keyMetadata       = 3
	keyOffsetCommit   = 8
	keyOffsetFetch    = 9
	keyCoordinator    = 10
	keyJoinGroup      = 11
	keyHeartbeat      = 12
	keyLeaveGroup     = 13
	keySyncGroup      = 14
	keyDescribeGroups = 15
	keyListGroups     = 16
	keyAPIVersions    = 18
	keyCreateTopics   = 19
	keyDeleteTopics   = 20
	keyDeleteRecords  = 21
	keyInitProducerID = 22
	keyEpochEnd       = 23
	keyDescribeConfig = 32
	keyAlterConfigs   = 33
	keyPartitions     = 37
	keyDeleteGroups   = 42
	keyIncremental    = 44
	keyOffsetDelete   = 47
	keyCluster        = 60

	maxKey = keyCluster
)

// never is a version that no API reaches.
const never = 1<<15 - 1

// table is the one table of what is served. ApiVersions answers with it, and
// docs/kafka.md is made of it.
var table = [...]API{
	{keyProduce, "Produce", 0, 9, 9, "versions 0 to 2 are advertised, because older clients look at them to learn what the broker can, " +
		"and answered with UNSUPPORTED_VERSION; no transactions"},
	{keyFetch, "Fetch", 4, 12, 12, "no fetch sessions: every answer has session id 0; an answer is cut at what may be pinned for one connection, at most 2 MiB and always one whole batch"},
	{keyListOffsets, "ListOffsets", 0, 7, 6, "version 0 is answered with UNSUPPORTED_VERSION"},
	{keyMetadata, "Metadata", 0, 12, 9, "one broker with id 1, which leads every partition; topics are created when topic.auto_create is on and the client allows it"},
	{keyOffsetCommit, "OffsetCommit", 2, 8, 8, "how long offsets are kept is the broker's setting alone; an offset may lie behind the end of the log"},
	{keyOffsetFetch, "OffsetFetch", 1, 8, 6, ""},
	{keyCoordinator, "FindCoordinator", 0, 4, 3, "of groups only"},
	{keyJoinGroup, "JoinGroup", 0, 9, 6, "INCONSISTENT_GROUP_PROTOCOL from a group that has members of mqd's own protocol"},
	{keyHeartbeat, "Heartbeat", 0, 4, 4, ""},
	{keyLeaveGroup, "LeaveGroup", 0, 5, 4, ""},
	{keySyncGroup, "SyncGroup", 0, 5, 4, ""},
	{keyDescribeGroups, "DescribeGroups", 0, 5, 5, "a group with members of mqd's own protocol has the protocol type mqd"},
	{keyListGroups, "ListGroups", 0, 4, 3, "as DescribeGroups; one without members has no protocol type"},
	{keyAPIVersions, "ApiVersions", 0, 4, 3, ""},
	{keyCreateTopics, "CreateTopics", 0, 7, 5, "a replication factor of 1 or -1"},
	{keyDeleteTopics, "DeleteTopics", 0, 6, 4, ""},
	{keyDeleteRecords, "DeleteRecords", 0, 2, 2, ""},
	{keyInitProducerID, "InitProducerId", 0, 4, 2, "a fresh producer id with epoch 0 each time; a transactional id is answered with UNSUPPORTED_VERSION"},
	{keyEpochEnd, "OffsetForLeaderEpoch", 2, 4, 4, "the leader epoch is the number of the broker's life, the same for every partition"},
	{keyDescribeConfig, "DescribeConfigs", 0, 4, 4, "of topics and of the broker"},
	{keyAlterConfigs, "AlterConfigs", 0, 2, 2, "of topics; a value that is in force anyway is not made the topic's own"},
	{keyPartitions, "CreatePartitions", 0, 3, 2, "an assignment may only name broker 1"},
	{keyDeleteGroups, "DeleteGroups", 0, 2, 2, ""},
	{keyIncremental, "IncrementalAlterConfigs", 0, 1, 1, "as AlterConfigs"},
	{keyOffsetDelete, "OffsetDelete", 0, 0, never, "GROUP_SUBSCRIBED_TO_TOPIC, not NON_EMPTY_GROUP, for every topic of a group with members that are not consumers"},
	{keyCluster, "DescribeCluster", 0, 1, 0, ""},
}

// byKey has the rows by their keys.
var byKey = func() (rows [maxKey + 1]*API) {
	for i := range table {
		rows[table[i].Key] = &table[i]
	}
	return rows
}()

// find is the row of a key, nil for one that is not served.
func find(key int16) *API {
	if key < 0 || key > maxKey {
		return nil
	}
	return byKey[key]
}

// APIs lists what is served, in order of key.
func APIs() []API { return append([]API(nil), table[:]...) }
