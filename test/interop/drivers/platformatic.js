// Runs @platformatic/kafka. Usage: platformatic.js ADDRESS MODULES
//
// A request is a line of JSON on standard input, its answer one on standard output;
// driver_test.go has their fields.
'use strict'
const fs = require('fs')
const path = require('path')
const { address, load, record, Members, Sending, serve, say, sleep } = require('./lines.js')
const { Admin, Consumer, Producer, stringSerializers, stringDeserializers } = load('@platformatic/kafka')

const settings = { clientId: 'platformatic', bootstrapBrokers: [address], retries: 100, retryDelay: 200, metadataMaxAge: 1000 }

function message (topic, number, size) {
  const r = record(number, size)
  return { topic, partition: 0, key: r.key, value: r.value, timestamp: BigInt(r.time), headers: { n: r.header } }
}

function producer (more) {
  return new Producer({ ...settings, serializers: stringSerializers, autocreateTopics: true, ...more })
}

function consumer (groupId, more) {
  return new Consumer({ ...settings, groupId, deserializers: stringDeserializers, maxWaitTime: 100, minBytes: 1, autocommit: false, ...more })
}

const members = new Members(async (q, member) => {
  const c = consumer(q.group, { sessionTimeout: 10000, rebalanceTimeout: 20000, heartbeatInterval: 500 })
  c.on('consumer:group:join', e => {
    member.owns = (e.assignments || []).filter(a => a.topic === q.topic).reduce((n, a) => n + a.partitions.length, 0)
  })
  const stream = await c.consume({ topics: [q.topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false })
  stream.on('error', e => { member.error = e })
  let over = false
  const reads = (async () => {
    for await (const m of stream) {
      members.note(m.value)
      // Whoever has the partition then reads it again.
      await m.commit().catch?.(e => say('commit:', e))
      if (over) break
    }
  })()
  reads.catch(e => { member.error = e })
  return async () => {
    over = true
    await stream.close()
    await reads
    await c.close(true)
  }
})

let administrator
const admin = () => (administrator ??= new Admin(settings))

let reader, number = 0
const sending = new Sending()
let sender

serve({
  hello: () => ({ version: JSON.parse(fs.readFileSync(path.join(process.argv[3], '@platformatic/kafka/package.json'))).version }),

  async produce (q) {
    const p = producer({ retries: q.size ? 0 : 100 })
    try {
      const messages = Array.from({ length: q.n }, (_, i) => message(q.topic, q.first + i, q.size))
      await p.send({ messages, acks: { 0: 0, 1: 1 }[q.acks] ?? -1, ...(q.codec && q.codec !== 'none' ? { compression: q.codec } : {}) })
    } finally {
      await p.close()
    }
  },

  async start (q) {
    sender = producer({ idempotent: true })
    sending.start(numbers => sender.send({ messages: numbers.map(n => message(q.topic, n)), acks: -1 }))
  },

  async stop () {
    const n = await sending.stop()
    await sender.close()
    return { n }
  },

  async open (q) {
    const c = consumer(`reader-${process.pid}-${++number}`, { isolationLevel: q.committed ? 1 : 0 })
    const list = async timestamp => (await c.listOffsets({ topics: [q.topic], timestamp: BigInt(timestamp) })).get(q.topic)[0]
    const position = await list({ start: -2, end: -1, time: q.time }[q.from])
    const offset = position < 0n ? await list(-1) : position
    const stream = await c.consume({
      topics: [q.topic], mode: 'manual', offsets: [{ topic: q.topic, partition: 0, offset }], ...(q.small ? { maxBytesPerPartition: 1, maxBytes: 1 } : {})
    })
    const got = []
    const reads = (async () => {
      for await (const m of stream) {
        got.push({ o: Number(m.offset), k: m.key, v: m.value, t: Number(m.timestamp), h: m.headers.get('n') })
      }
    })()
    reads.catch(e => say('read', e))
    reader = { c, stream, got, reads }
    return { position: Number(position) }
  },

  async read (q) {
    while (reader.got.length < q.n) await sleep(10)
    return { records: reader.got }
  },

  async close () {
    await reader.stream.close()
    await reader.c.close(true)
  },

  async create (q) {
    const configs = Object.entries(q.config || {}).map(([name, value]) => ({ name, value }))
    await admin().createTopics({ topics: [q.topic], partitions: q.partitions, replicas: 1, configs })
  },

  async grow (q) {
    await admin().createPartitions({ topics: [{ name: q.topic, count: q.partitions }] })
  },

  async delete (q) {
    await admin().deleteTopics({ topics: [q.topic] })
  },

  async topics () {
    return { names: await admin().listTopics() }
  },

  async config (q) {
    const [a] = await admin().describeConfigs({ resources: [{ resourceType: 2, resourceName: q.topic, configurationKeys: [q.name] }] })
    return { value: a.configs[0].value }
  },

  async alter (q) {
    await admin().incrementalAlterConfigs({
      resources: [{ resourceType: 2, resourceName: q.topic, configs: [{ name: q.name, configOperation: 0, value: q.value }] }]
    })
  },

  async groups () {
    return { names: [...(await admin().listGroups({ types: ['classic', 'consumer'] })).keys()] }
  },

  async drop (q) {
    await admin().deleteGroups({ groups: [q.group] })
  }
}, members)
