/** @module A primary DNS server for RFC 2136 that has every zone, empty, and accepts changes without making them. */
import { createServer, type Server } from 'node:net'
import { signMessage, type TsigKey } from '#protocols/dns/tsig.ts'

export interface UpdateServer {
  readonly server: Server
  readonly credentials: Readonly<Record<'server' | 'key_name' | 'secret', string>>
}

const SECRET = Buffer.from('a secret of tests, 32 bytes long')
const KEY: TsigKey = { name: 'full', algorithm: 'hmac-sha256', secret: SECRET }
const TYPE_SOA = 6
/** Two root names and five numbers. */
const SOA_DATA_BYTES = 22

/** Never keeps a process alive. */
export async function startUpdateServer(): Promise<UpdateServer> {
  const server = createServer((socket) => {
    let received = Buffer.alloc(0)
    socket.on('error', () => socket.destroy())
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      for (let size = 0; received.length >= 2; received = received.subarray(2 + size)) {
        size = received.readUInt16BE(0)
        if (received.length < 2 + size) return
        const response = respond(received.subarray(2, 2 + size))
        socket.write(Buffer.concat([Buffer.from([response.length >> 8, response.length & 255]), response]))
      }
    })
    socket.unref()
  })
  server.unref()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  const credentials = { server: `127.0.0.1:${port}`, key_name: KEY.name, secret: SECRET.toString('base64') }
  return { server, credentials }
}

function respond(request: Buffer): Buffer {
  let end = 12
  while (request.readUInt8(end) !== 0) end += request.readUInt8(end) + 1
  const question = request.subarray(12, end + 5)
  const isUpdate = ((request.readUInt16BE(2) >> 11) & 15) === 5
  const hasAnswer = !isUpdate && request.readUInt16BE(end + 1) === TYPE_SOA
  const header = Buffer.from(request.subarray(0, 12))
  header.writeUInt16BE(request.readUInt16BE(2) | 0x8400, 2)
  for (const [i, count] of [1, hasAnswer ? 1 : 0, 0, 0].entries()) header.writeUInt16BE(count, 4 + 2 * i)
  const answer = Buffer.alloc(10 + SOA_DATA_BYTES)
  answer.writeUInt16BE(TYPE_SOA, 0)
  answer.writeUInt16BE(1, 2)
  answer.writeUInt16BE(SOA_DATA_BYTES, 8)
  const parts = hasAnswer ? [header, question, question.subarray(0, -4), answer] : [header, question]
  // The MAC of HMAC-SHA256, before the original id, the error and the length of other data.
  const mac = request.subarray(-38, -6)
  // The clock of the client, which tests may set.
  const seconds = request.readUIntBE(request.length - 48, 6)
  return signMessage(Buffer.concat(parts), KEY, seconds, mac).bytes
}
