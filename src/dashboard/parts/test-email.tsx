/** @module The button that sends a test email, and what is said of it. */
import { useState } from 'react'
import { useChange } from '../api/data.ts'
import { ActionButton } from './buttons.tsx'
import { FormError } from './form.tsx'
import { TextLink } from './links.tsx'
import { Notice } from './status.tsx'

export function useTestEmail(run: () => PromiseLike<{ readonly data: { readonly id: string; readonly to: string } }>) {
  const send = useChange(run)
  // Stays when another one fails.
  const [sent, setSent] = useState<{ readonly id: string; readonly to: string }>()
  const isSent = sent !== undefined
  return {
    isSent,
    button: (
      <ActionButton
        needs="developer"
        variant={isSent ? 'default' : 'filled'}
        loading={send.isPending}
        onClick={() => send.mutate(undefined, { onSuccess: ({ data }) => setSent(data) })}
        label={isSent ? 'Send another' : 'Send a test email'}
      />
    ),
    outcome: (
      <>
        <div role="status">
          {sent && (
            <Notice
              tone="active"
              action={<TextLink to="/emails/$id" params={{ id: sent.id }} name="See what happens to it" />}
            >
              The test email is on its way to {sent.to}.
            </Notice>
          )}
        </div>
        <FormError error={send.error} />
      </>
    ),
  }
}
