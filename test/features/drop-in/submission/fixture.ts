/** @module A service with SMTP submission on free loopback ports, and sessions with it. For tests. */
import { connect as connectTls } from 'node:tls'
import { at } from '#test/support/api.ts'
import type { TestAppOptions } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, VERIFIED } from '#test/support/email-api.ts'
import { connectSmtp, type RawSmtp, type RawSmtpOptions } from '#test/support/smtp-client.ts'

export interface SubmissionFixture extends EmailApi {
  /** With STARTTLS. */
  readonly port: number
  /** With TLS from the first octet. */
  readonly tlsPort: number
  /** A connection after STARTTLS and EHLO. */
  connectSecure(options?: RawSmtpOptions): Promise<RawSmtp>
  /** The same after AUTH; `key`: default that of the first account. */
  connectLoggedIn(key?: string): Promise<RawSmtp>
  /** The composed message of an email, without its signature. */
  readSource(id: string): Promise<string>
}

export async function startSubmissionFixture(options: TestAppOptions = {}): Promise<SubmissionFixture> {
  const service = await createEmailApi({ submits: true, ...options })
  const [starttls, tls] = service.submission?.endpoints ?? []
  const port = starttls?.port ?? 0
  const connectSecure: SubmissionFixture['connectSecure'] = async (connectOptions) => {
    const client = await connectSmtp(port, '127.0.0.1', connectOptions)
    await client.reply()
    await client.say('EHLO client.test')
    await client.startTls()
    await client.say('EHLO client.test')
    return client
  }
  return {
    ...service,
    port,
    tlsPort: tls?.port ?? 0,
    connectSecure,
    async connectLoggedIn(key = service.key) {
      const client = await connectSecure()
      const reply = await client.say(`AUTH PLAIN ${encodePlain('apikey', key)}`)
      if (!reply.startsWith('235')) throw new Error(`not logged in: ${reply}`)
      return client
    },
    readSource: async (id) => String(at((await service.api('GET', `/v1/emails/${id}/source`)).body, 'data', 'source')),
  }
}

export const encode = (text: string): string => Buffer.from(text).toString('base64')

/** The initial response of AUTH PLAIN. */
export const encodePlain = (username: string, password: string): string => encode(`\0${username}\0${password}`)

export interface Transaction {
  readonly from?: string
  readonly to?: readonly string[]
}

/** A header and body with CRLF, from a verified domain. */
export const createMessage = (fields: readonly string[] = [], body = 'Hello.'): string =>
  [`From: ada@${VERIFIED}`, 'To: bob@receiver.test', 'Subject: Hello', ...fields, '', body, ''].join('\r\n')

/** Sends MAIL, RCPT, DATA and the message; returns the last reply, or the first one that rejects. */
export async function sendMessage(
  client: RawSmtp,
  message: string,
  { from = `ada@${VERIFIED}`, to = ['bob@receiver.test'] }: Transaction = {},
): Promise<string> {
  for (const line of [`MAIL FROM:<${from}>`, ...to.map((address) => `RCPT TO:<${address}>`), 'DATA']) {
    const reply = await client.say(line)
    if (!/^[23]/.test(reply)) return reply
  }
  await client.write(message)
  return client.say('.')
}

/** The id of the email in the reply to a message. */
export function idOf(reply: string): string {
  const id = /^250 2\.0\.0 Ok: queued as (\S+)/.exec(reply)?.[1]
  if (id === undefined) throw new Error(`not accepted: ${reply}`)
  return id
}

/** Whether a TLS handshake from the first octet succeeds; resolves with the greeting. */
export const greetTls = (port: number): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
    socket.once('data', (octets: Buffer) => {
      socket.destroy()
      resolve(octets.toString())
    })
    socket.once('error', reject)
  })
