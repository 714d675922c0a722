/** @module The button that sends a test email, and what is said of it. */
import { useState } from 'react'
import { useChange } from '../api/data.ts'
import { ActionButton } from './buttons.tsx'
import { FormError } from './form.tsx'
import { TextLink } from './links.tsx'
import { Notice } from './status.tsx'

export function useTestEmail(run: () => PromiseLike<{ readonly data: { readonly id: string } }>) {
  const send = useChange(run)
  // Stays when another one fails.
  const [id, setId] = useState<string>()
  const isSent = id !== undefined
  return {
    isSent,
    button: (
      <ActionButton
        needs="developer"
        variant={isSent ? 'default' : 'filled'}
        loading={send.isPending}
        onClick={() => send.mutate(undefined, { onSuccess: ({ data }) => setId(data.id) })}
      >
        {isSent ? 'Send another' : 'Send a test email'}
      </ActionButton>
    ),
    outcome: (
      <>
        <div role="status">
          {isSent && (
            <Notice
              tone="good"
              action={
                <TextLink to="/emails/$id" params={{ id }}>
                  See what happens to it
                </TextLink>
              }
            >
              The test email is on its way.
            </Notice>
          )}
        </div>
        <FormError error={send.error} />
      </>
    ),
  }
}
