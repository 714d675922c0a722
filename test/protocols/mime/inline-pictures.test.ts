import { expect, test } from 'bun:test'
import { embedPictures, type InlinePicture } from '#protocols/mime/inline-pictures.ts'

const picture = (contentId: string, contentType = 'image/png', bytes = 3): InlinePicture => ({
  contentId,
  contentType,
  content: new Uint8Array(bytes),
})
const URL_OF = 'data:image/png;base64,AAAA'

test.each([
  ['<img src="cid:a@x">', `<img src="${URL_OF}">`],
  ["<img src='CID:a@x'>", `<img src='${URL_OF}'>`],
  ['<img src=cid:a@x>', `<img src=${URL_OF}>`],
  ['<p style="background:url(cid:a@x)">', `<p style="background:url(${URL_OF})">`],
  ['<img src="cid:a%40x">', `<img src="${URL_OF}">`],
  ['<img src="cid:%zz">', '<img src="cid:%zz">'],
  ['<img src="cid:none">', '<img src="cid:none">'],
  ['the text cid:a@x', 'the text cid:a@x'],
  ['<img src="cid:page">', '<img src="cid:page">'],
])('%s', (html, embedded) => {
  expect(embedPictures(html, [picture('a@x'), picture('page', 'text/html')])).toBe(embedded)
})

test('one picture that is referred to ten thousand times costs a limited length', () => {
  const html = '<img src="cid:a">'.repeat(10_000)
  const embedded = embedPictures(html, [picture('a', 'image/png', 700_000)])
  expect(embedded.length).toBeLessThan(5_000_000)
  expect(embedded).toContain('data:image/png')
})
