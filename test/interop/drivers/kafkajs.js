// Runs kafkajs. Usage: kafkajs.js ADDRESS MODULES
//
// A request is a line of JSON on standard input, its answer one on standard output;
// driver_test.go has their fields.
'use strict'
const zlib = require('zlib')
const { promisify } = require('util')
const { address, load, record, Members, Sending, serve, say } = require('./lines.js')
const { Kafka, logLevel, CompressionTypes, CompressionCodecs, ConfigResourceTypes } = load('kafkajs')

// It comes with gzip alone, and takes others.
const lz4 = load('lz4-napi')
CompressionCodecs[CompressionTypes.Snappy] = load('kafkajs-snappy')
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: e => lz4.compressFrame(e.buffer),
  decompress: b => lz4.decompressFrame(b)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: e => promisify(zlib.zstdCompress)(e.buffer),
  decompress: b => promisify(zlib.zstdDecompress)(b)
})
const types = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy, lz4: CompressionTypes.LZ4, zstd: CompressionTypes.ZSTD }

const kafka = new Kafka({
  clientId: 'kafkajs',
  brokers: [address],
  logLevel: logLevel.ERROR,
  logCreator: () => e => say(e.namespace, e.log.message, e.log.error || ''),
  retry: { retries: 100, initialRetryTime: 100, maxRetryTime: 1000 }
})

function message (number, size) {
  const r = record(number, size)
  return { key: r.key, value: r.value, partition: 0, timestamp: String(r.time), headers: { n: r.header } }
}

const members = new Members(async (q, member) => {
  const c = kafka.consumer({
    groupId: q.group, sessionTimeout: 10000, rebalanceTimeout: 20000, heartbeatInterval: 500, maxWaitTimeInMs: 100, metadataMaxAge: 1000
  })
  c.on(c.events.GROUP_JOIN, e => { member.owns = (e.payload.memberAssignment[q.topic] || []).length })
  c.on(c.events.CRASH, e => { if (!e.payload.restart) member.error = e.payload.error })
  await c.connect()
  await c.subscribe({ topic: q.topic, fromBeginning: true })
  await c.run({
    eachBatchAutoResolve: true,
    autoCommit: true,
    autoCommitThreshold: 1,
    eachMessage: async ({ message }) => members.note(message.value.toString())
  })
  return () => c.disconnect()
})

let admin
async function ask () {
  if (!admin) {
    admin = kafka.admin()
    await admin.connect()
  }
  return admin
}

// reader reads a partition without committing: there is no way but a group.
let reader, number = 0
const sending = new Sending()
let sender

serve({
  hello: () => ({ version: load('kafkajs/package.json').version }),

  async produce (q) {
    const p = kafka.producer({ idempotent: false, allowAutoTopicCreation: true, retry: { retries: q.size ? 0 : 100 } })
    await p.connect()
    try {
      const messages = Array.from({ length: q.n }, (_, i) => message(q.first + i, q.size))
      await p.send({ topic: q.topic, messages, compression: types[q.codec || 'none'], acks: { 0: 0, 1: 1 }[q.acks] ?? -1 })
    } finally {
      await p.disconnect()
    }
  },

  async start (q) {
    sender = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
    await sender.connect()
    sending.start(numbers => sender.send({ topic: q.topic, messages: numbers.map(n => message(n)) }))
  },

  async stop () {
    const n = await sending.stop()
    await sender.disconnect()
    return { n }
  },

  async open (q) {
    const a = await ask()
    const [end] = await a.fetchTopicOffsets(q.topic)
    let position = Number({ start: end.low, end: end.high }[q.from] ?? -1)
    if (q.from === 'time') {
      const [found] = await a.fetchTopicOffsetsByTimestamp(q.topic, q.time)
      position = Number(found.offset) // it says the end where there is nothing
      if (found.offset === end.high) position = -1
    }
    const got = []
    const c = kafka.consumer({
      groupId: `reader-${process.pid}-${++number}`, maxWaitTimeInMs: 100, readUncommitted: !q.committed, ...(q.small ? { maxBytesPerPartition: 1, maxBytes: 1 } : {})
    })
    await c.connect()
    await c.subscribe({ topic: q.topic, fromBeginning: true })
    await c.run({
      autoCommit: false,
      eachMessage: async ({ message: m }) => {
        got.push({ o: Number(m.offset), k: m.key.toString(), v: m.value.toString(), t: Number(m.timestamp), h: String(m.headers.n) })
      }
    })
    c.seek({ topic: q.topic, partition: 0, offset: String(position < 0 ? end.high : position) })
    reader = { c, got }
    return { position }
  },

  async read (q) {
    while (reader.got.length < q.n) await new Promise(resolve => setTimeout(resolve, 10))
    return { records: reader.got }
  },

  close: () => reader.c.disconnect(),

  async create (q) {
    const configEntries = Object.entries(q.config || {}).map(([name, value]) => ({ name, value }))
    await (await ask()).createTopics({ topics: [{ topic: q.topic, numPartitions: q.partitions, replicationFactor: 1, configEntries }] })
  },

  async grow (q) {
    await (await ask()).createPartitions({ topicPartitions: [{ topic: q.topic, count: q.partitions }] })
  },

  async delete (q) {
    await (await ask()).deleteTopics({ topics: [q.topic] })
  },

  async topics () {
    return { names: await (await ask()).listTopics() }
  },

  async config (q) {
    const a = await (await ask()).describeConfigs({ includeSynonyms: false, resources: [{ type: ConfigResourceTypes.TOPIC, name: q.topic, configNames: [q.name] }] })
    return { value: a.resources[0].configEntries[0].configValue }
  },

  async alter (q) {
    await (await ask()).alterConfigs({ resources: [{ type: ConfigResourceTypes.TOPIC, name: q.topic, configEntries: [{ name: q.name, value: q.value }] }] })
  },

  async groups () {
    return { names: (await (await ask()).listGroups()).groups.map(g => g.groupId) }
  },

  async drop (q) {
    await (await ask()).deleteGroups([q.group])
  }
}, members)
