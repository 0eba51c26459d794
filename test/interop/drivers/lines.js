// What the drivers in JavaScript have in common: requests, records and members of a group.
'use strict'
const path = require('path')
const readline = require('readline')

const [address, modules] = process.argv.slice(2)

// load finds a module where install.sh has put it.
const load = name => require(require.resolve(name, { paths: [path.dirname(modules)] }))

const say = (...what) => console.error(...what)
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))

// record is what record in franz_test.go is.
function record (number, size = 0) {
  const value = String(number).padStart(6, '0') + ' too hot too hot too hot'
  return { key: 'pump-' + number % 7, value: value.padEnd(size, '.'), time: 1700000000000 + number, header: String(number) }
}

// Members of groups. start(q, member) starts one and returns how to end it; it sets
// member.owns and calls note.
class Members {
  constructor (start) {
    this.start = start
    this.all = new Map()
    this.forget()
  }

  note (value) {
    this.seen.add(parseInt(value, 10))
    this.reads++
  }

  forget () {
    this.seen = new Set()
    this.reads = 0
    return {}
  }

  async join (q) {
    const member = { owns: 0, error: null }
    this.all.set(q.member, member)
    // A member may only be there when others have agreed, which is not waited for.
    member.started = this.start(q, member)
    member.started.catch(e => { member.error = e })
    return {}
  }

  async leave (q) {
    const member = this.all.get(q.member)
    this.all.delete(q.member)
    const end = await member.started
    await end()
    return {}
  }

  group () {
    const owns = {}
    for (const [name, member] of this.all) {
      if (member.error) return { error: `member ${name}: ${member.error}` }
      owns[name] = member.owns
    }
    return { owns, seen: [...this.seen], reads: this.reads }
  }
}

// sending sends 50 records at a time, one such lot behind the other, because the clients
// do not keep the order of what is sent at once.
class Sending {
  start (one) {
    this.over = false
    this.n = this.run(one)
    this.n.catch(() => {})
  }

  async run (one) {
    let n = 0
    for (; !this.over; n += 50) await one(Array.from({ length: 50 }, (_, i) => n + i))
    return n
  }

  stop () {
    this.over = true
    return this.n
  }
}

// text is what an error says, with those that it is made of.
const text = e => [e.message, e.type, e.apiId, e.cause && text(e.cause), ...(e.errors || []).map(text)].filter(Boolean).join('; ') || String(e)

async function serve (ops, members) {
  for (const op of ['join', 'leave', 'group', 'forget']) ops[op] = q => members[op](q)
  process.on('unhandledRejection', e => say('unhandled:', e))
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const q = JSON.parse(line)
    let a
    try {
      a = ops[q.op] ? await ops[q.op](q) : { unsupported: 'no ' + q.op }
    } catch (e) {
      say(q.op, e)
      a = { error: text(e) }
    }
    console.log(JSON.stringify(a || {}))
  }
  process.exit(0)
}

module.exports = { address, load, record, Members, Sending, serve, say, sleep }
