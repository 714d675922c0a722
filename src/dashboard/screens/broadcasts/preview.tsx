/** @module A draft as one contact would get it. */
import { Anchor, Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Newsletter, NewsletterPreview } from '#client/api.ts'
import { read } from '../../api/client.ts'
import { useData } from '../../api/data.ts'
import { bindText, Form, FormError } from '../../parts/form.tsx'
import { LongText } from '../../parts/long-text.tsx'
import { MailFrame } from '../../parts/mail-frame.tsx'
import { Facts, LoadingState } from '../../parts/page.tsx'

interface DraftPreviewProps {
  readonly draft: Newsletter
  /** Address of the contact for whom it is rendered; empty: the newest. */
  readonly contact: string
  onContact(contact: string): void
}

export function DraftPreview({ draft, contact, onContact }: DraftPreviewProps) {
  const query = useData(read.newsletters.preview(draft.id, { contact_email: contact }), { retry: false })
  const [typed, setTyped] = useState(contact)
  const submit = () => {
    if (typed.trim() === contact) void query.refetch()
    else onContact(typed.trim())
  }
  return (
    <Stack gap="sm">
      <Form isRow onSubmit={submit}>
        <TextInput
          label="Shown as this contact gets it"
          description="Empty: the contact that was added last."
          placeholder="bob@example.com"
          inputMode="email"
          {...bindText(typed, setTyped)}
          flex="1 1 14rem"
          maw={420}
          autoComplete="off"
          spellCheck={false}
        />
        <Button type="submit" variant="default">
          Show
        </Button>
      </Form>
      {query.error ? (
        <FormError error={query.error} />
      ) : query.data ? (
        <Rendered draft={draft} contact={contact} preview={query.data} />
      ) : (
        <LoadingState rows={4} />
      )}
    </Stack>
  )
}

interface RenderedProps extends Pick<DraftPreviewProps, 'draft' | 'contact'> {
  readonly preview: NewsletterPreview
}

function Rendered({ draft, contact, preview }: RenderedProps) {
  const [isTextShown, setIsTextShown] = useState(false)
  const { html_body: html, text_body: text, subject, contact_email: email } = preview
  const src = `/app/newsletters/${encodeURIComponent(draft.id)}/html${contact === '' ? '' : `?contact_email=${encodeURIComponent(contact)}`}`
  const hasBoth = html !== null && text !== null
  return (
    <Stack gap="sm" data-preview="">
      <Facts
        facts={[
          ['From', draft.from_address],
          ['To', email ?? 'contact@example.com, who is made up: the list has no subscribed contact'],
          ['Subject', subject],
        ]}
      />
      {hasBoth && (
        <Group gap="md">
          <Anchor
            component="button"
            type="button"
            size="sm"
            aria-pressed={!isTextShown}
            underline={isTextShown ? 'hover' : 'always'}
            onClick={() => setIsTextShown(false)}
          >
            HTML
          </Anchor>
          <Anchor
            component="button"
            type="button"
            size="sm"
            aria-pressed={isTextShown}
            underline={isTextShown ? 'always' : 'hover'}
            onClick={() => setIsTextShown(true)}
          >
            Text
          </Anchor>
        </Group>
      )}
      {html === null && text === null ? (
        <Text>It has no content yet.</Text>
      ) : html !== null && !(hasBoth && isTextShown) ? (
        <MailFrame key={`${draft.updated_at} ${contact}`} html={html} src={src} />
      ) : (
        <LongText label="Text of the email" text={text ?? ''} />
      )}
    </Stack>
  )
}
