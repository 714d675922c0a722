/**
 * @module The dialog with new recovery codes, which are shown once. It belongs to the frame and not to a screen: what
 * begins it may leave the page as soon as the authenticator app is in use.
 */
import { Button, Code, Group, Modal, Stack, Text } from '@mantine/core'
import { useSyncExternalStore } from 'react'
import { Copy } from './copy.tsx'

interface NewCodes {
  /** What was done, as a sentence. */
  readonly done: string
  readonly codes: readonly string[]
}

let shown: NewCodes | undefined
const listeners = new Set<() => void>()

function setShown(next: NewCodes | undefined): void {
  shown = next
  for (const listener of listeners) listener()
}

/** Shows codes until the user has kept them. */
export const showRecoveryCodes = (codes: NewCodes): void => setShown(codes)

function listen(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Closes only by its button: a key pressed by mistake must not lose the codes. */
export function RecoveryCodesDialog() {
  const current = useSyncExternalStore(listen, () => shown)
  return (
    <Modal
      opened={current !== undefined}
      onClose={() => undefined}
      title="Recovery codes"
      closeOnClickOutside={false}
      closeOnEscape={false}
      withCloseButton={false}
    >
      {current && (
        <Stack>
          <Text>
            {current.done} Keep these recovery codes: each signs you in once without the app. They are not shown again.
          </Text>
          <Code block>{current.codes.join('\n')}</Code>
          <Group>
            <Copy value={current.codes.join('\n')} what="recovery codes" />
          </Group>
          <Button onClick={() => setShown(undefined)}>I have kept them</Button>
        </Stack>
      )}
    </Modal>
  )
}
