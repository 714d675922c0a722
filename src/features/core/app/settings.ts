/** @module Settings of the language model that several features use (platform/llm.ts). */
import type { SettingValues } from '#platform/config.ts'
import { checked, isHttpUrl, list, text } from '#platform/setting-kinds.ts'

/** What the language model may be used for. */
const LLM_USES: readonly string[] = ['classification', 'insights', 'phishing']

export const languageModelSettings = {
  llmUrl: checked(
    '',
    'a URL such as http://127.0.0.1:11434/v1 or https://llm.example.com/v1, or nothing',
    'Base URL of an OpenAI-compatible API, for TASSIS_LLM_USES; empty: no model is used.',
    (v) => v === '' || isHttpUrl(v),
  ),
  llmUses: list(
    'What TASSIS_LLM_URL is used for: classification (of messages in agent mailboxes), insights (receives statistics only), phishing (receives text and links of mail that rules flag as suspicious).',
    'a comma-separated list of classification, insights, phishing',
    (v) => LLM_USES.includes(v),
    ['classification', 'insights'],
  ),
  llmKey: { ...text('', 'API key for TASSIS_LLM_URL.', 'any text'), secret: true },
  llmModel: text('', 'Model to use at TASSIS_LLM_URL.', 'a model name'),
}

declare module '#platform/config.ts' {
  interface Config extends SettingValues<typeof languageModelSettings> {}
}
