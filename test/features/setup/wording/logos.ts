/** @module Pictures for tests of logos, and their upload. */
import type { ApiResponse, TestApi } from '#test/support/api.ts'

/** A PNG. */
export const RED_PIXEL = Uint8Array.fromBase64(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
)

/** A red rectangle. */
export const drawLogo = (format: 'png' | 'jpeg' | 'webp', width: number, height: number): Promise<Uint8Array> =>
  new Bun.Image(RED_PIXEL).resize(width, height)[format]().bytes()

/** @param type sent as Content-Type, which nothing depends on */
export async function putLogo(
  { url, key: ownKey }: Pick<TestApi, 'url' | 'key'>,
  body: Uint8Array,
  key = ownKey,
  type = 'application/octet-stream',
): Promise<ApiResponse> {
  const response = await fetch(`${url}/v1/account/logo`, {
    method: 'PUT',
    headers: { authorization: `Bearer ${key}`, 'content-type': type },
    body: new Uint8Array(body),
  })
  return { status: response.status, headers: response.headers, body: await response.json() }
}
