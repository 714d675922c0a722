/** @module Logos: what can be uploaded, how they are stored, and how they are served. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createCipheriv } from 'node:crypto'
import { deflateSync } from 'node:zlib'
import { fitLogo, readLogo } from '#features/setup/wording/logo.ts'
import { at } from '#test/support/api.ts'
import { eventually } from '#test/support/app.ts'
import { createEmailApi, type EmailApi, expectError } from '#test/support/email-api.ts'
import { drawLogo, putLogo } from './logos.ts'

let service: EmailApi

beforeAll(async () => {
  service = await createEmailApi()
})
afterAll(() => service?.[Symbol.asyncDispose]())
beforeEach(() => service.api('DELETE', '/v1/account/wording'))

/** A row of 480 pixels behind its filter type. */
const ROW_BYTES = 1 + 480 * 3

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const pathOf = (body: unknown): string => new URL(String(at(body, 'data', 'logo', 'url'))).pathname

describe('an upload', () => {
  // Proves: account-18
  test.each([
    ['png', 'image/png'],
    ['jpeg', 'image/jpeg'],
    // Mail programs on Windows do not show WebP.
    ['webp', 'image/png'],
  ] as const)(
    'of %s is stored as %s, whatever its Content-Type says, without what was behind the picture',
    async (format, type) => {
      const polyglot = Buffer.concat([await drawLogo(format, 960, 200), bytesOf('<script>alert(1)</script>')])
      const answer = await putLogo(service, polyglot, service.key, 'text/html')
      expect({ status: answer.status, logo: at(answer.body, 'data', 'logo') }).toMatchObject({
        status: 200,
        logo: { content_type: type, width: 480, height: 100 },
      })
      const logo = await fetch(`${service.url}${pathOf(answer.body)}`)
      const bytes = await logo.bytes()
      expect(logo.headers.get('content-type')).toBe(type)
      expect(Buffer.from(bytes).includes('script')).toBe(false)
      expect(await new Bun.Image(bytes).metadata()).toMatchObject({ width: 480, height: 100 })
    },
  )

  // Proves: account-18
  test.each([
    ['SVG', bytesOf('<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'), 'save an SVG, PDF or GIF as PNG'],
    [
      'GIF',
      Uint8Array.fromBase64('R0lGODlhAQABAIAAAAAAAAAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw=='),
      'must be a PNG, JPEG or WebP',
    ],
    ['HTML', bytesOf('<!doctype html><script>alert(1)</script>'), 'must be a PNG, JPEG or WebP'],
    ['TIFF', Uint8Array.from([0x49, 0x49, 42, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 'must be a PNG, JPEG or WebP'],
    ['nothing', new Uint8Array(), 'Send the bytes of the picture'],
    ['a signature alone', bytesOf('RIFF\0\0\0\0WEBP'), 'cannot be read'],
  ])('of %s is a 422 that says what to do', async (_, body, message) => {
    const answer = await putLogo(service, body)
    expectError(answer, 422, 'invalid_logo', 'body')
    expect(at(answer.body, 'message')).toContain(message)
    expect((await service.api('GET', '/v1/account/wording')).body).toMatchObject({ data: { logo: null } })
  })

  // Proves: account-18
  test('that is damaged, has too many pixels or too many bytes is refused', async () => {
    const png = await drawLogo('png', 300, 100)
    expectError(await putLogo(service, png.slice(0, png.length - 30)), 422, 'invalid_logo', 'body')
    const tall = await putLogo(service, await drawLogo('png', 10, 2049))
    expect([tall.status, at(tall.body, 'message')]).toEqual([
      422,
      'The logo has 10 by 2049 pixels; it must have at most 2048 in each direction.',
    ])
    // A picture of 60,000 by 60,000 pixels, says its header.
    const bomb = png.slice()
    new DataView(bomb.buffer).setUint32(16, 60_000)
    new DataView(bomb.buffer).setUint32(20, 60_000)
    expectError(await putLogo(service, bomb), 422, 'invalid_logo', 'body')
    const large = await putLogo(service, Buffer.concat([png, new Uint8Array(100 * 1024)]))
    expect([large.status, at(large.body, 'message')]).toEqual([
      413,
      'The logo has 101 KiB; it must have at most 100 KiB. Save it with fewer pixels: 480 by 192 are enough.',
    ])
    expect((await putLogo(service, new Uint8Array(300 * 1024))).status).toBe(413)
  })

  // Proves: account-18
  test('is a 503 while no memory is left for its pixels, and holds none afterwards', async () => {
    const { memory } = service.app
    const logo = await drawLogo('png', 2048, 2048)
    expect((await putLogo(service, logo)).status).toBe(200)
    using held = new DisposableStack()
    held.adopt(memory.reserve(memory.limitBytes - memory.inUseBytes - 1024 * 1024), (all) => all?.release())
    expectError(await putLogo(service, logo), 503, 'server_busy')
    held.dispose()
    await eventually(() => memory.inUseBytes === 0)
  })

  // Proves: account-18
  test('of noise, which does not compress, is stored with at most 100 KiB', async () => {
    const key = Buffer.alloc(16)
    const rows = createCipheriv('aes-128-ctr', key, key).update(new Uint8Array(192 * ROW_BYTES))
    for (let at = 0; at < rows.length; at += ROW_BYTES) rows[at] = 0
    const png = toPng(480, 192, Uint8Array.from(rows))
    // Only through the reader: such a file is too large for an upload.
    await expect(readLogo(png, service.app.memory)).rejects.toThrow('at most 100 KiB')
    const logo = await readLogo(await new Bun.Image(png).webp({ quality: 60 }).bytes(), service.app.memory)
    expect(logo).toMatchObject({ type: 'image/png', width: 480, height: 192 })
    expect(logo.bytes.length).toBeLessThanOrEqual(100 * 1024)
  })
})

describe('a logo', () => {
  // Proves: account-19
  test('is served to everybody, immutable, as nothing but a picture; another one has another URL', async () => {
    const first = pathOf((await putLogo(service, await drawLogo('png', 50, 20))).body)
    const response = await fetch(`${service.url}${first}`)
    expect(response.status).toBe(200)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'image/png',
      'cache-control': 'public, max-age=31536000, immutable',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
      'cross-origin-resource-policy': 'cross-origin',
    })
    expect(response.headers.get('set-cookie')).toBeNull()
    const second = pathOf((await putLogo(service, await drawLogo('png', 50, 21))).body)
    expect(second).not.toBe(first)
    const statuses = [first, second, '/t/logo/unknown', `/t/logo/${'x'.repeat(2000)}`, '/t/logo/%00'].map((path) =>
      fetch(`${service.url}${path}`).then(({ status }) => status),
    )
    expect(await Promise.all(statuses)).toEqual([404, 200, 404, 404, 404])
    await service.api('DELETE', '/v1/account/logo')
    expect((await fetch(`${service.url}${second}`)).status).toBe(404)
  })

  // Proves: account-19
  test('is not under the tracking host of another account', async () => {
    const other = await service.newAccount()
    await service.addDomain(other, 'other.test')
    await service.addDomain(service.actor, 'ours.test')
    service.app.db.run(
      "UPDATE domains SET tracking_domain = 'links.' || domain, tracking_verified_at = 1 WHERE domain IN ('other.test', 'ours.test')",
    )
    const path = pathOf((await putLogo(service, await drawLogo('png', 51, 20))).body)
    const ask = (host: string) => fetch(`${service.url}${path}`, { headers: { host } }).then(({ status }) => status)
    expect([await ask('links.ours.test'), await ask('links.other.test'), await ask('mail.proxy.test')]).toEqual([
      200, 404, 200,
    ])
    // Both accounts have this logo.
    await putLogo(service, await drawLogo('png', 51, 20), await service.newKey([], other))
    expect(await ask('links.other.test')).toBe(200)
  })

  test.each([
    [
      { width: 480, height: 192 },
      { width: 240, height: 96 },
    ],
    [
      { width: 480, height: 10 },
      { width: 240, height: 5 },
    ],
    [
      { width: 2, height: 192 },
      { width: 1, height: 96 },
    ],
    [
      { width: 480, height: 1 },
      { width: 240, height: 1 },
    ],
    [
      { width: 16, height: 16 },
      { width: 16, height: 16 },
    ],
  ])('of %j is shown as %j', (stored, shown) => {
    expect(fitLogo(stored)).toEqual(shown)
  })
})

/** An uncompressed RGB PNG. @param rows each begins with its filter type */
function toPng(width: number, height: number, rows: Uint8Array): Uint8Array {
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 2, 0, 0, 0], 8)
  const chunk = (type: string, data: Uint8Array): Buffer => {
    const body = Buffer.concat([Buffer.from(type), data])
    const frame = Buffer.alloc(8)
    frame.writeUInt32BE(data.length, 0)
    frame.writeUInt32BE(Bun.hash.crc32(body), 4)
    return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)])
  }
  return Buffer.concat([
    Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10]),
    chunk('IHDR', header),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', new Uint8Array()),
  ])
}
