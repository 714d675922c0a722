/** @module The script of /login/passkey, which works without the rest of the dashboard. */
import { signWithPasskey } from './parts/passkey.ts'

const FAILED = 'The server cannot be reached.'

async function post(path: string, body: object = {}): Promise<Record<string, unknown>> {
  const response = await fetch(path, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }).catch(() => {
    throw new Error(FAILED)
  })
  const answer = (await response.json()) as { readonly data: Record<string, unknown>; readonly message?: string }
  if (!response.ok) throw new Error(answer.message ?? FAILED)
  return answer.data
}

async function signIn(button: HTMLButtonElement, problem: Element): Promise<void> {
  problem.textContent = ''
  button.disabled = true
  try {
    const { options } = await post('/v1/auth/passkeys/challenge')
    await post('/v1/auth/passkeys/login', { credential: await signWithPasskey(options) })
    location.replace(button.dataset['next'] ?? '/app')
  } catch (error) {
    problem.textContent = error instanceof Error ? error.message : String(error)
    button.disabled = false
    button.focus()
  }
}

const button = document.querySelector<HTMLButtonElement>('button')
const problem = document.querySelector('[role=alert]')
if (button && problem) {
  button.addEventListener('click', () => signIn(button, problem))
  void signIn(button, problem)
}
