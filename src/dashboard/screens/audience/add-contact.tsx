/** @module The dialog that adds a contact to a list. */
import { Alert, Checkbox, Textarea, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { ContactListRecord, ContactRecord } from '#features/audience/contact-lists/model.ts'
import { toListPath, useContactChange } from '../../api/audience.ts'
import { ApiError, request } from '../../api/client.ts'
import { DialogFrame, findFieldError } from '../../parts/form.tsx'
import { CONTACT_STATES, type ContactStatus, parseMetadataText } from './contact-search.ts'

const GETS_MAIL: readonly ContactStatus[] = ['active', 'pending']

export function AddContactDialog({ list, onClose }: { readonly list: ContactListRecord; onClose(): void }) {
  const [email, setEmail] = useState('')
  const [text, setText] = useState('')
  const [problem, setProblem] = useState<string>()
  const [isConfirmed, setIsConfirmed] = useState(false)
  const [added, setAdded] = useState<ContactRecord>()
  const add = useContactChange(list.id, (body: Readonly<Record<string, unknown>>) =>
    request<{ data: ContactRecord }>('POST', toListPath(list.id, '/contacts'), { body }),
  )
  const { error } = add
  const emailError =
    findFieldError(error, 'email') ??
    (error instanceof ApiError && error.code === 'contact_exists' ? error.message : undefined)
  const metadataError = problem ?? findFieldError(error, 'metadata')
  const submit = () => {
    const parsed = parseMetadataText(text)
    setProblem('problem' in parsed ? parsed.problem : undefined)
    if ('problem' in parsed) return
    setAdded(undefined)
    add.mutate(
      { email: email.trim(), metadata: parsed.metadata, ...(list.double_opt_in && { confirmed: isConfirmed }) },
      {
        // Stays open for the next one.
        onSuccess: ({ data }) => {
          setAdded(data)
          setEmail('')
        },
      },
    )
  }
  return (
    <DialogFrame
      title="Add a contact"
      confirm="Add"
      work={{
        isPending: add.isPending,
        error: emailError === undefined && metadataError === undefined ? error : undefined,
      }}
      isIncomplete={email.trim() === ''}
      onConfirm={submit}
      onClose={onClose}
    >
      <div role="status">
        {added && (
          <Alert color={GETS_MAIL.includes(added.status) ? 'green' : 'yellow'} title={`${added.email} was added`}>
            {CONTACT_STATES[added.status].word}. {CONTACT_STATES[added.status].meaning}
          </Alert>
        )}
      </div>
      <TextInput
        label="Address"
        inputMode="email"
        value={email}
        onChange={(event) => setEmail(event.currentTarget.value)}
        error={emailError}
        required
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        data-autofocus
      />
      <Textarea
        label="Metadata"
        description='A JSON object that templates read as contact, such as {"first_name": "Ada"}.'
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        error={metadataError}
        autosize
        minRows={3}
        maxRows={12}
        spellCheck={false}
        styles={{ input: { fontFamily: 'var(--mantine-font-family-monospace)' } }}
      />
      {list.double_opt_in && (
        <Checkbox
          label="They have agreed already: send no confirmation request"
          checked={isConfirmed}
          onChange={(event) => setIsConfirmed(event.currentTarget.checked)}
        />
      )}
    </DialogFrame>
  )
}
