/**
 * @module The dialog with a secret that is shown once: recovery codes, a key. It belongs to the frame and not to a screen:
 * what begins it may leave the page as soon as it is done.
 */
import { Button, Code, Group, Modal, Stack, Text } from '@mantine/core'
import { type ReactNode, useSyncExternalStore } from 'react'
import { Copy } from './copy.tsx'

interface NewSecret {
  readonly title: string
  readonly text: ReactNode
  readonly secret: string
}

let shown: NewSecret | undefined
const listeners = new Set<() => void>()

/** Shows a secret until the user has kept it. */
export function showSecret(next: NewSecret | undefined): void {
  shown = next
  for (const listener of listeners) listener()
}

function listen(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export const showRecoveryCodes = (done: string, codes: readonly string[]): void =>
  showSecret({
    title: 'Recovery codes',
    text: `${done} Keep these recovery codes: each signs you in once without the app. They are not shown again.`,
    secret: codes.join('\n'),
  })

/** Closes only by its button: a key pressed by mistake must not lose the secret. */
export function SecretDialog() {
  const current = useSyncExternalStore(listen, () => shown)
  return (
    <Modal
      opened={current !== undefined}
      onClose={() => undefined}
      title={current?.title}
      closeOnClickOutside={false}
      closeOnEscape={false}
      withCloseButton={false}
    >
      {current && (
        <Stack>
          <Text>{current.text}</Text>
          <Code block style={{ whiteSpace: 'pre-wrap', overflowWrap: 'anywhere' }}>
            {current.secret}
          </Code>
          <Group justify="space-between">
            <Copy
              value={current.secret}
              what={current.title.replace(/^[A-Z](?=[a-z])/, (letter) => letter.toLowerCase())}
            />
            <Button onClick={() => showSecret(undefined)}>I have kept it</Button>
          </Group>
        </Stack>
      )}
    </Modal>
  )
}
