// Two members of a group, by kafkajs. Usage: kafkajs.js ADDRESS TOPIC
const { Kafka, logLevel } = require('kafkajs')
const readline = require('readline')

const [address, topic] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [address], logLevel: logLevel.NOTHING, retry: { retries: 50, maxRetryTime: 1000 } })
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]()

async function main () {
  const seen = new Set()
  const members = []
  for (let i = 0; i < 2; i++) {
    const m = kafka.consumer({ groupId: topic, sessionTimeout: 6000, heartbeatInterval: 500, rebalanceTimeout: 10000 })
    await m.connect()
    await m.subscribe({ topic, fromBeginning: true })
    await m.run({ autoCommitThreshold: 1, eachMessage: async ({ message }) => { seen.add(Number(message.value)) } })
    members.push(m)
  }
  for (const goal of [400, 800]) {
    while (seen.size < goal) await new Promise(resolve => setTimeout(resolve, 50))
    console.log('read', seen.size)
    await lines.next()
  }
  for (const m of members) await m.disconnect()
  const admin = kafka.admin()
  await admin.connect()
  await admin.deleteGroups([topic])
  await admin.disconnect()
  console.log('deleted')
  process.exit(0)
}

main().catch(e => { console.error(e); process.exit(1) })
