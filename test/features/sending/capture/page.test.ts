import { expect, test } from 'bun:test'
import { capturedListPage, capturedMessagePage } from '#features/sending/capture/page.ts'
import { parseHead, parseMessage } from '#features/sending/capture/parse.ts'
import { decodeRaw } from '#features/sending/capture/store.ts'
import { escapeHtml, type Html, htmlResponse } from '#platform/http/html.ts'
import { KiB, MiB } from '#platform/units.ts'

const ATTACK = `"'><script>alert(1)</script><img src=x onerror=alert(1)></pre></title></style></iframe><svg onload=alert(1)>`
const encoded = (text: string) => `=?utf-8?B?${Buffer.from(text).toString('base64')}?=`

/** A message that tries to inject HTML wherever it is shown. */
const hostileMessage = (): Uint8Array =>
  Buffer.from(
    [
      `From: ${encoded(ATTACK)} <ada@sender.test>`,
      `To: ${encoded(ATTACK)} <bob@x.test>`,
      `Subject: ${encoded(ATTACK)}`,
      `Message-ID: <${ATTACK.replaceAll(/[<>\s]/g, '')}@x>`,
      'Date: Thu, 01 Jan 2026 00:00:00 +0000',
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary=b',
      '',
      '--b',
      'Content-Type: multipart/alternative; boundary=a',
      '',
      '--a',
      'Content-Type: text/plain; charset=utf-8',
      '',
      ATTACK,
      '--a',
      'Content-Type: text/html; charset=utf-8',
      '',
      `<meta http-equiv="refresh" content="0;url=https://evil.test/"><base target="_top">${ATTACK}<img src="https://evil.test/x.png">`,
      '--a--',
      '--b',
      'Content-Type: text/html',
      `Content-Disposition: attachment; filename="${encoded(ATTACK)}"`,
      '',
      ATTACK,
      '--b--',
      '',
    ].join('\r\n'),
  )

const envelope = {
  recipientId: 5,
  emailId: 3,
  mailFrom: `${ATTACK}@x.test`,
  rcptTo: `${ATTACK}@y.test`,
  receivedAt: Date.UTC(2026, 0, 1),
  sizeBytes: 10,
}

const messagePage = async (raw: Uint8Array): Promise<Html> =>
  capturedMessagePage(envelope, await parseMessage(raw), decodeRaw(raw))

/** Every element of a page as a browser's tokenizer sees it, each once, with the names of its attributes. */
function elementsOf(page: Html): string[] {
  const found = new Set<string>()
  new HTMLRewriter()
    .on('*', {
      element({ tagName, attributes }) {
        found.add([tagName, ...[...attributes].map(([name]) => name)].join(' '))
      },
    })
    .transform(page.text)
  return [...found].sort()
}

function frameOf(page: Html): { sandbox: string | null; srcdoc: string } {
  const frames: { sandbox: string | null; srcdoc: string }[] = []
  new HTMLRewriter()
    .on('iframe', {
      element: (frame) =>
        void frames.push({ sandbox: frame.getAttribute('sandbox'), srcdoc: frame.getAttribute('srcdoc') ?? '' }),
    })
    .transform(page.text)
  if (!frames[0] || frames.length > 1) throw new Error(`${frames.length} frames`)
  return frames[0]
}

test('a hostile subject, address, body or file name adds no element and no attribute to the message page', async () => {
  expect(elementsOf(await messagePage(hostileMessage()))).toEqual([
    'a href',
    'bdi',
    'body',
    'dd',
    'div',
    'dl',
    'dt',
    'h1',
    'h2',
    'h2 id',
    'head',
    'html lang',
    'iframe title sandbox srcdoc',
    'li',
    'link rel href',
    'main',
    'meta charset',
    'meta name content',
    'p',
    'pre tabindex role aria-labelledby',
    'style',
    'time datetime',
    'title',
    'ul',
  ])
})

test('the content of a hostile message is on the page as text', async () => {
  const page = await messagePage(hostileMessage())
  const asText = escapeHtml(ATTACK)
  expect(page.text).toContain(`<h1><bdi>${asText}</bdi></h1>`)
  expect(page.text).toContain(`aria-labelledby="text">\n${asText}</pre>`)
  expect(page.text).toContain(`<dt>Recipient</dt><dd><bdi>${asText}@y.test</bdi></dd>`)
})

test('the HTML of a message is only in a frame that is sandboxed without exceptions and whose policy comes first and loads nothing', async () => {
  const { sandbox, srcdoc } = frameOf(await messagePage(hostileMessage()))
  expect(sandbox).toBe('')
  const decoded = srcdoc
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
  expect(decoded).toStartWith(
    `<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:"><meta http-equiv="refresh"`,
  )
})

test('a hostile subject or address adds no element to the list', async () => {
  const head = await parseHead(hostileMessage())
  expect(head.subject).toBe(ATTACK)
  expect(elementsOf(capturedListPage([{ envelope, head }]))).toEqual([
    'a href',
    'bdi',
    'body',
    'h1',
    'head',
    'html lang',
    'li',
    'link rel href',
    'main',
    'meta charset',
    'meta name content',
    'p',
    'style',
    'table',
    'tbody',
    'td data-label',
    'th scope',
    'thead',
    'time datetime',
    'title',
    'tr',
    'ul',
  ])
})

test('the list has one row per email, with each recipient and a link to its capture', async () => {
  const head = await parseHead(Buffer.from('Subject: Hello\r\n'))
  const capture = (recipientId: number, emailId: number) => ({
    envelope: { ...envelope, recipientId, emailId, rcptTo: `r${recipientId}@x.test` },
    head,
  })
  const { text } = capturedListPage([capture(9, 4), capture(8, 3), capture(7, 3)])
  const rows = text.split('<tr>').slice(2)
  expect(rows.map((row) => [...row.matchAll(/href="([^"]+)"/g)].map((match) => match[1]))).toEqual([
    ['/dev/captured/9'],
    ['/dev/captured/7', '/dev/captured/8', '/dev/captured/7'],
  ])
  expect(rows.map((row) => [...row.matchAll(/r\d@x\.test/g)].map(([address]) => address))).toEqual([
    ['r9@x.test'],
    ['r7@x.test', 'r8@x.test'],
  ])
})

test('the pages state that nothing has left this machine and link to the API', async () => {
  for (const { text } of [capturedListPage([]), await messagePage(hostileMessage())]) {
    expect(text).toContain('None of this mail has left this machine')
    expect(text).toContain('<a href="/docs">')
  }
})

test('the pages have a policy that forbids scripts and other hosts', async () => {
  const policy = htmlResponse(capturedListPage([])).headers.get('content-security-policy')
  expect(policy).toContain("default-src 'none'")
  expect(policy).not.toMatch(/script-src|frame-src|https?:/)
})

test('a malformed message is shown as its source', async () => {
  const raw = Buffer.from('\0\xff\xfe no header at all')
  expect((await messagePage(raw)).text).toContain(`no header at all</pre>`)
  expect((await messagePage(new Uint8Array())).text).toContain('<h1><bdi>(no subject)</bdi></h1>')
})

test('only the start of a large message is parsed and shown, and the page states this', async () => {
  const head =
    'Subject: Large\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n'
  const line = `${'a'.repeat(70)}\r\n`
  const raw = Buffer.from(`${head}${line.repeat((4 * MiB) / line.length)}\r\n--b--\r\n`)
  const message = await parseMessage(raw)
  expect({
    subject: message.subject,
    isCut: message.isCut && message.isTruncated,
    isBounded: (message.text?.length ?? 0) <= MiB,
  }).toEqual({
    subject: 'Large',
    isCut: true,
    isBounded: true,
  })
  const page = await messagePage(raw)
  expect(page.text).toContain('The message is large')
  expect(page.text.length).toBeLessThan(600 * KiB)
})
