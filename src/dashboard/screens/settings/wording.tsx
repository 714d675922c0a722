/** @module The account's own name, logo and texts for confirmation mails, confirmation pages and unsubscribe pages. */
import { Code, FileInput, Group, NativeSelect, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import type { AccountWording, AccountWordingTexts, WordingTexts } from '#client/api.ts'
import { api, read } from '../../api/client.ts'
import { useChange, useData } from '../../api/data.ts'
import { useAllowed } from '../../api/session.tsx'
import { ActionButton } from '../../parts/buttons.tsx'
import { FieldForm } from '../../parts/field-form.tsx'
import type { Field } from '../../parts/fields.ts'
import { bindText, FormError } from '../../parts/form.tsx'
import { toOptions } from '../../parts/format.ts'
import { QueryView, Section } from '../../parts/page.tsx'
import { Notice } from '../../parts/status.tsx'
import { SettingsPage } from './frame.tsx'

type Language = keyof AccountWordingTexts

const NAMES = new Intl.DisplayNames('en', { type: 'language' })
const LANGUAGES = ['en', 'de', 'fr', 'es', 'it', 'nl', 'pl', 'pt'] as const satisfies readonly Language[]

/** The mail and the pages with their texts. Each has the name of its preview. */
const PLACES = {
  mail: {
    label: 'Confirmation mail',
    fields: { mail_subject: 'Subject', mail_intro: 'Beginning', mail_button: 'Button', mail_footer: 'End' },
  },
  confirm: {
    label: 'Page behind its link',
    fields: { confirm_heading: 'Heading', confirm_text: 'Text', confirm_button: 'Button' },
  },
  confirmed: { label: 'Page after confirming', fields: { confirmed_heading: 'Heading', confirmed_text: 'Text' } },
  unsubscribe: {
    label: 'Unsubscribe page',
    fields: { unsubscribe_heading: 'Heading', unsubscribe_text: 'Text', unsubscribe_button: 'Button' },
  },
  unsubscribed: {
    label: 'Page after unsubscribing',
    fields: { unsubscribed_heading: 'Heading', unsubscribed_text: 'Text' },
  },
} as const satisfies Readonly<
  Record<string, { readonly label: string; readonly fields: { readonly [Name in keyof WordingTexts]?: string } }>
>

type PlaceName = keyof typeof PLACES
const PLACE_NAMES = Object.keys(PLACES) as readonly PlaceName[]

/** Empty ones have our text. */
const listFields = (place: PlaceName, language: Language, defaults: AccountWording['defaults']): Field[] =>
  Object.entries<string>(PLACES[place].fields).map(([name, label]) => ({
    name: `texts.${language}.${name}`,
    label,
    kind: /_(text|intro|footer)$/.test(name) ? 'lines' : 'text',
    placeholder: defaults[language]?.[name as keyof WordingTexts] ?? '',
    lang: language,
  }))

/** All texts of each language that has a change: they are stored together. @param changes by the names of their fields */
function mergeTexts(stored: AccountWordingTexts, changes: Readonly<Record<string, string | null>>) {
  const texts: { [L in Language]?: WordingTexts } = {}
  for (const [name, text] of Object.entries(changes)) {
    const [, language, key = ''] = name.split('.') as [string, Language, string]
    texts[language] = { ...stored[language], ...texts[language], [key]: text ?? '' }
  }
  return texts
}

interface WordingPreviewProps {
  readonly place: PlaceName
  readonly language: Language
  /** Changes when the wording was read again. */
  readonly version: number
}

function WordingPreview({ place, language, version }: WordingPreviewProps) {
  const src = `/app/wording/${place}?language=${language}&version=${version}`
  return (
    <Stack gap="xs">
      <iframe
        // A new element: changing the address of a frame would add to the history.
        key={src}
        className="mail-frame"
        title="Preview"
        sandbox=""
        referrerPolicy="no-referrer"
        src={src}
      />
      <Text c="dimmed">As it is saved, for a list “Customers”.</Text>
    </Stack>
  )
}

const WORDING = ['account', 'getWording'] as const

export default function WordingScreen() {
  const query = useData(read.account.getWording())
  const [language, setLanguage] = useState<Language>('en')
  const [place, setPlace] = useState<PlaceName>('mail')
  const roleReason = useAllowed('admin')
  return (
    <SettingsPage
      title="Wording"
      description="What people read when they confirm a subscription or unsubscribe. What you leave empty is ours, in their language."
    >
      {roleReason !== undefined && <Notice>{roleReason}</Notice>}
      <QueryView query={query}>
        {(data) => (
          <>
            <Section title="Name and logo">
              <NameForm wording={data} roleReason={roleReason} />
              <Logo wording={data} roleReason={roleReason} />
            </Section>
            <Section
              title="Texts"
              description={
                <>
                  <Code>{'{{name}}'}</Code> is the name above or the domain of the sender, <Code>{'{{list}}'}</Code> the
                  contact list, except when unsubscribing.
                </>
              }
            >
              <Group>
                <NativeSelect
                  label="Language of the reader"
                  {...bindText(language, (value) => setLanguage(value as Language))}
                  data={toOptions(LANGUAGES, (name) => `${NAMES.of(name)}${data.texts[name] ? ' (own texts)' : ''}`)}
                />
                <NativeSelect
                  label="Mail or page"
                  {...bindText(place, (value) => setPlace(value as PlaceName))}
                  data={toOptions(PLACE_NAMES, (name) => PLACES[name].label)}
                />
              </Group>
              <div className="template-editor">
                <Texts wording={data} place={place} language={language} roleReason={roleReason} />
                <WordingPreview place={place} language={language} version={query.dataUpdatedAt} />
              </div>
            </Section>
          </>
        )}
      </QueryView>
    </SettingsPage>
  )
}

interface PartProps {
  readonly wording: AccountWording
  readonly roleReason: string | undefined
}

const NameForm = ({ wording, roleReason }: PartProps) => (
  <FieldForm
    aria-label="Name"
    maw={560}
    reason={roleReason}
    stored={wording}
    refreshes={[WORDING]}
    run={api.account.updateWording}
    fields={[
      { name: 'name', label: 'Name', hint: 'The name of the sender, as people know it. The domain is shown after it.' },
    ]}
  />
)

function Logo({ wording: { logo, name }, roleReason }: PartProps) {
  const upload = useChange((file: File) => api.account.setLogo(toTypedBlob(file)), WORDING)
  const remove = useChange(() => api.account.deleteLogo(), WORDING)
  return (
    <Stack maw={560} align="flex-start">
      {logo && (
        <img
          className="logo-preview"
          src={new URL(logo.url).pathname}
          width={logo.width / 2}
          height={logo.height / 2}
          alt={name ?? 'Logo'}
        />
      )}
      <FileInput
        w="100%"
        label="Logo"
        description="PNG, JPEG or WebP, at most 100 KiB."
        placeholder={logo ? 'Choose another file' : 'Choose a file'}
        accept="image/png,image/jpeg,image/webp"
        value={null}
        disabled={roleReason !== undefined || upload.isPending}
        onChange={(file) => file && upload.mutate(file)}
      />
      <FormError error={upload.error ?? remove.error} />
      {logo && (
        <ActionButton variant="default" reason={roleReason} onClick={() => remove.mutate(undefined)}>
          Remove the logo
        </ActionButton>
      )}
      <Text component="span" role="status" size="sm">
        {upload.isSuccess && logo && 'The logo is saved.'}
      </Text>
    </Stack>
  )
}

/** The server looks at the content only. */
const toTypedBlob = (file: File): Blob => new Blob([file], { type: 'application/octet-stream' })

interface TextsProps extends PartProps {
  readonly place: PlaceName
  readonly language: Language
}

/** The texts of all languages and places, of which one is shown, so that changing either loses nothing. */
const Texts = ({ wording, place, language, roleReason }: TextsProps) => (
  <FieldForm
    aria-label={`Texts in ${NAMES.of(language)}`}
    maw={640}
    align="stretch"
    reason={roleReason}
    stored={wording}
    refreshes={[WORDING]}
    run={(changes: Readonly<Record<string, string | null>>) =>
      api.account.updateWording({ texts: mergeTexts(wording.texts, changes) })
    }
    lost="The texts that you changed are lost."
    fields={LANGUAGES.flatMap((each) => PLACE_NAMES.flatMap((name) => listFields(name, each, wording.defaults)))}
    hidesFields
    layout={({ show }) => (
      <Stack gap="sm" role="group" aria-label={PLACES[place].label}>
        {show(listFields(place, language, wording.defaults))}
      </Stack>
    )}
  />
)
