/**
 * @module Attacks the SMTP listener in one way after the other, and prints the memory of its process above idle and the
 * response times of its HTTP server. After each attack an ordinary message must be accepted. See `scripts/fuzz-inbound
 * --help`.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { connectSmtp } from '#test/support/smtp-client.ts'
import { attacks } from './attacks.ts'

const HELP = `scripts/fuzz-inbound [--seed N] [--connections N] [--only TEXT]
Attacks the SMTP listener and prints memory and HTTP responses. Exits with 1 when memory exceeds idle by more than 200 MB,
when HTTP does not respond, or when an ordinary message is not accepted after an attack.`
const MAX_BYTES_ABOVE_IDLE = 200_000_000
const PROBE_INTERVAL_MS = 20

const { values: args } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    connections: { type: 'string', default: '1000' },
    only: { type: 'string', default: '' },
    help: { type: 'boolean', default: false },
  },
})
if (args.help) {
  console.log(HELP)
  process.exit(0)
}

const server = Bun.spawn([process.execPath, join(import.meta.dir, 'server.ts'), args.connections], {
  stdin: 'pipe',
  stdout: 'pipe',
  stderr: 'inherit',
})
const ports = await readPorts()

/** Resident memory of the attacked process. */
const memoryBytes = (): number => {
  const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024
}

// Sends one message of each kind, so that memory for what is loaded only once counts as idle.
await sendOrdinaryMessage()
await Bun.sleep(1_000)
const idleBytes = memoryBytes()
console.log(`idle: ${megabytes(idleBytes)} MB, up to ${args.connections} connections, seed ${args.seed}`)
console.log('  seconds  MB above idle (peak)   HTTP ms p50    p99    max   attack')

let hasFailed = false
for (const [index, attack] of attacks.entries()) {
  if (!attack.name.includes(args.only)) continue
  const startedAtMs = performance.now()
  const attacker = Bun.spawn(
    [process.execPath, join(import.meta.dir, 'attacker.ts'), String(index), String(ports.smtp), args.seed],
    { stdout: 'inherit', stderr: 'inherit' },
  )
  let hasEnded = false
  void attacker.exited.then(() => {
    hasEnded = true
  })
  let peakBytes = 0
  const answeredMs: number[] = []
  let unanswered = 0
  while (!hasEnded) {
    peakBytes = Math.max(peakBytes, memoryBytes())
    const askedAtMs = performance.now()
    const isAnswered = await fetch(`http://127.0.0.1:${ports.http}/`, { signal: AbortSignal.timeout(5_000) }).then(
      (response) => response.ok,
      () => false,
    )
    if (isAnswered) answeredMs.push(performance.now() - askedAtMs)
    else unanswered++
    await Bun.sleep(PROBE_INTERVAL_MS)
  }
  const seconds = (performance.now() - startedAtMs) / 1000
  const isServed = await sendOrdinaryMessage()
  const sorted = answeredMs.sort((a, b) => a - b)
  const at = (fraction: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN
  const aboveIdleBytes = peakBytes - idleBytes
  const problems = [
    ...(aboveIdleBytes > MAX_BYTES_ABOVE_IDLE ? ['TOO MUCH MEMORY'] : []),
    ...(unanswered > 0 ? [`${unanswered} HTTP REQUESTS WITHOUT A RESPONSE`] : []),
    ...(isServed ? [] : ['AN ORDINARY MESSAGE WAS NOT ACCEPTED AFTERWARDS']),
  ]
  if (problems.length > 0) hasFailed = true
  console.log(
    [
      seconds.toFixed(1).padStart(9),
      megabytes(aboveIdleBytes).padStart(15),
      at(0.5).toFixed(1).padStart(20),
      at(0.99).toFixed(1).padStart(7),
      at(1).toFixed(1).padStart(7),
      `   ${[attack.name, ...problems].join('  ')}`,
    ].join(''),
  )
}
await Bun.sleep(6_000)
console.log(`after all: ${megabytes(memoryBytes() - idleBytes)} MB above idle`)
server.stdin.end()
await server.exited
process.exit(hasFailed ? 1 : 0)

/**
 * Whether an ordinary message is accepted, in plaintext and over TLS; the attackers' connections may still occupy slots
 * for a moment.
 */
async function sendOrdinaryMessage(): Promise<boolean> {
  for (let attempt = 0; attempt < 100; attempt++) {
    try {
      await using client = await connectSmtp(ports.smtp)
      if ((await client.reply()).startsWith('220')) {
        const replies: string[] = []
        for (const isSecure of [false, true]) {
          if (isSecure) await client.startTls()
          for (const line of ['EHLO a.test', 'MAIL FROM:<a@b.test>', 'RCPT TO:<c@d.test>', 'DATA'])
            await client.say(line)
          replies.push(await client.say('Subject: x\r\n\r\nHello.\r\n.'))
        }
        if (replies.every((reply) => reply.startsWith('250'))) return true
      }
    } catch {
      // Retried below.
    }
    await Bun.sleep(100)
  }
  return false
}

async function readPorts(): Promise<{ readonly smtp: number; readonly http: number }> {
  const reader = server.stdout.getReader()
  const { value } = await reader.read()
  return JSON.parse(new TextDecoder().decode(value)) as { smtp: number; http: number }
}

function megabytes(bytes: number): string {
  return (bytes / 1_000_000).toFixed(0)
}
