import { expect, test } from 'bun:test'
import { download } from '#platform/http/download.ts'

const headersOf = (contentType: string, filename: string | null) => {
  const { headers } = download(Buffer.from('x'), contentType, filename)
  return [headers.get('content-type'), headers.get('content-disposition')]
}

test.each<[type: string, name: string | null, contentType: string, disposition: string]>([
  ['application/pdf', 'Rechnung.pdf', 'application/pdf', 'attachment; filename="Rechnung.pdf"'],
  ['text/html', null, 'text/html', 'attachment'],
  ['text/plain', '', 'text/plain', 'attachment'],
  ['text/plain; charset=utf-8', 'a.txt', 'application/octet-stream', 'attachment; filename="a.txt"'],
  [
    'text/plain\r\nx: y',
    'a\r\nSet-Cookie: b',
    'application/octet-stream',
    'attachment; filename="a__Set-Cookie: b"; filename*=UTF-8\'\'a%0D%0ASet-Cookie%3A%20b',
  ],
  [
    'image/png',
    'Prüfung "1".png',
    'image/png',
    'attachment; filename="Pr_fung _1_.png"; filename*=UTF-8\'\'Pr%C3%BCfung%20%221%22.png',
  ],
  ['', '50%.txt', 'application/octet-stream', 'attachment; filename="50_.txt"; filename*=UTF-8\'\'50%25.txt'],
  ['image/gif', "it's(1)*.gif", 'image/gif', 'attachment; filename="it\'s(1)*.gif"'],
  ['image/gif', "ü'()*", 'image/gif', "attachment; filename=\"_'()*\"; filename*=UTF-8''%C3%BC%27%28%29%2A"],
  ['image/gif', '\ud800.gif', 'image/gif', 'attachment; filename="_.gif"; filename*=UTF-8\'\'%EF%BF%BD.gif'],
])('content of type %j named %j', (type, name, contentType, disposition) => {
  expect(headersOf(type, name)).toEqual([contentType, disposition])
})

test('a browser saves it, guesses nothing and loads nothing, whatever it is', async () => {
  const answer = download(Buffer.from('<script>1</script>'), 'text/html', 'a.html')
  expect(answer.headers.get('x-content-type-options')).toBe('nosniff')
  expect(answer.headers.get('content-security-policy')).toBe("sandbox; default-src 'none'")
  expect(await answer.text()).toBe('<script>1</script>')
})
