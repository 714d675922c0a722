/**
 * @module What the service sends to: an SMTP server that counts mail and discards it, and the DNS server that leads to
 * it, on 127.0.0.1. Both do as little as they can.
 */
import { createSocket } from 'node:dgram'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type SecureContext, TLSSocket } from 'node:tls'
import { type Answer, AUTHORITATIVE_ANSWER, decode, encode } from 'dns-packet'
import { RECEIVER_DOMAIN } from './mails.ts'
import { waitUntil } from './processes.ts'

export const RECEIVER_HOST = 'mx.bench.test'

/** By name and type; `*.` stands for one label. */
export type DnsRecords = Readonly<Record<string, Readonly<Partial<Record<'MX' | 'A' | 'TXT', string>>>>>

export interface Arrivals {
  readonly messages: number
  /** Messages that came over TLS, and those with a DKIM signature. */
  readonly encrypted: number
  readonly signed: number
}

export interface Receiver extends AsyncDisposable {
  readonly smtpPort: number
  readonly dnsPort: number
  /** Returns what has arrived since the last `waitFor`. */
  count(): Arrivals
  /** Resolves with all arrivals since the last call when at least so many messages are here. */
  waitFor(wanted: number): Promise<Arrivals>
}

const MX: DnsRecords[string] = { MX: RECEIVER_HOST }
const OWN_RECORDS: DnsRecords = {
  [RECEIVER_DOMAIN]: MX,
  [`*.${RECEIVER_DOMAIN}`]: MX,
  [RECEIVER_HOST]: { A: '127.0.0.1' },
}

/** @param options secureContext: of STARTTLS, which is not offered without it; records: besides those of RECEIVER_DOMAIN */
export async function startReceiver(
  options: { readonly secureContext?: SecureContext | undefined; readonly records?: DnsRecords } = {},
): Promise<Receiver> {
  let mail = { messages: 0, encrypted: 0, signed: 0 }
  const sink = createServer({ noDelay: true }, (socket) =>
    serveSmtp(socket, options.secureContext, ({ isEncrypted, text }) => {
      mail.messages++
      if (isEncrypted) mail.encrypted++
      if (text.includes('DKIM-Signature:')) mail.signed++
    }),
  )
  await new Promise<void>((resolve) => sink.listen(0, '127.0.0.1', resolve))
  const dns = await startDns({ ...OWN_RECORDS, ...options.records })
  return {
    smtpPort: (sink.address() as AddressInfo).port,
    dnsPort: dns.address().port,
    count: () => ({ ...mail }),
    async waitFor(wanted) {
      await waitUntil(
        () => mail.messages >= wanted,
        () => `Only ${mail.messages} messages arrived.`,
      )
      const counted = mail
      mail = { messages: 0, encrypted: 0, signed: 0 }
      return counted
    },
    async [Symbol.asyncDispose]() {
      sink.close()
      dns.close()
    },
  }
}

async function startDns(records: DnsRecords) {
  const dns = createSocket('udp4')
  dns.on('error', () => undefined)
  dns.on('message', (message, from) => {
    const query = decode(message)
    const question = query.questions?.[0]
    if (!question) return
    const reply = encode({
      type: 'response',
      ...(query.id !== undefined && { id: query.id }),
      flags: AUTHORITATIVE_ANSWER,
      questions: [question],
      answers: findAnswers(records, question.name.toLowerCase(), question.type),
    })
    dns.send(reply, from.port, from.address)
  })
  await new Promise<void>((resolve) => dns.bind(0, '127.0.0.1', resolve))
  return dns
}

function findAnswers(records: DnsRecords, name: string, type: string): Answer[] {
  const { MX: exchange, A: address, TXT: text } = records[name] ?? records[name.replace(/^[^.]*/, '*')] ?? {}
  const ttl = 300
  if (type === 'MX' && exchange !== undefined) return [{ name, type, ttl, data: { preference: 10, exchange } }]
  if (type === 'A' && address !== undefined) return [{ name, type, ttl, data: address }]
  // A string has at most 255 octets (RFC 1035 §3.3).
  if (type === 'TXT' && text !== undefined) return [{ name, type, ttl, data: text.match(/.{1,255}/g) ?? [] }]
  return []
}

export interface SunkMessage {
  readonly isEncrypted: boolean
  readonly rcptTo: string
  /** The raw message as latin1, after a line end. */
  readonly text: string
}

/** @param secureContext for STARTTLS; undefined if it is not offered */
export function serveSmtp(
  socket: Socket,
  secureContext: SecureContext | undefined,
  onMessage: (message: SunkMessage) => void,
): void {
  socket.on('error', () => undefined)
  socket.write('220 mx.bench.test ESMTP\r\n')
  converse(socket, secureContext, onMessage)
}

function converse(
  socket: Socket,
  secureContext: SecureContext | undefined,
  onMessage: (message: SunkMessage) => void,
): void {
  const offers = ['PIPELINING', '8BITMIME', ...(secureContext ? ['STARTTLS'] : []), 'SIZE 52428800']
  const ehloReply = ['mx.bench.test', ...offers].map((line, at) => `250${at < offers.length ? '-' : ' '}${line}\r\n`)
  let text = ''
  let isInData = false
  let rcptTo = ''
  const onData = (chunk: Buffer): void => {
    text += chunk.toString('latin1')
    let replies = ''
    for (;;) {
      const marker = isInData ? '\r\n.\r\n' : '\r\n'
      const end = text.indexOf(marker)
      if (end < 0) break
      const part = text.slice(0, end)
      text = text.slice(end + marker.length)
      if (isInData) {
        isInData = false
        onMessage({ isEncrypted: socket instanceof TLSSocket, rcptTo, text: part })
        replies += '250 2.0.0 taken\r\n'
        continue
      }
      const verb = part.slice(0, 4).toUpperCase()
      if (verb === 'QUIT') {
        socket.end(`${replies}221 2.0.0 bye\r\n`)
        return
      }
      if (verb === 'STAR' && secureContext) {
        socket.off('data', onData)
        socket.write('220 2.0.0 go on\r\n')
        const secured = new TLSSocket(socket, { isServer: true, secureContext })
        secured.on('error', () => undefined)
        converse(secured, undefined, onMessage)
        return
      }
      if (verb === 'RCPT') rcptTo = /<(.*)>/.exec(part)?.[1] ?? ''
      if (verb === 'DATA') {
        isInData = true
        // An empty message is only a dot, so the line end before the message counts as part of the end marker.
        text = `\r\n${text}`
      }
      replies += verb === 'EHLO' ? ehloReply.join('') : verb === 'DATA' ? '354 go on\r\n' : '250 2.0.0 ok\r\n'
    }
    if (replies !== '') socket.write(replies)
  }
  socket.on('data', onData)
}
