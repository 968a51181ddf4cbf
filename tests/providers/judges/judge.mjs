// Reads one signed request as JSON from standard input, and says what the vendor's own library makes of it.
import { readFileSync } from 'node:fs';

const { kind, secret, url, headers, body: encoded, now } = JSON.parse(readFileSync(0, 'utf8'));
const raw = Buffer.from(encoded, 'base64');
const text = raw.toString('utf8');
// Some look at the clock: it is that of the sample.
Date.now = () => now;

const judges = {
  async github() {
    const { verify } = await import('@octokit/webhooks-methods');
    return verify(secret, text, headers['x-hub-signature-256']);
  },
  async discord() {
    const { verifyKey } = await import('discord-interactions');
    return verifyKey(raw, headers['x-signature-ed25519'], headers['x-signature-timestamp'], secret);
  },
  async linear() {
    const { LinearWebhookClient } = await import('@linear/sdk/webhooks');
    return new LinearWebhookClient(secret).verify(raw, headers['linear-signature']);
  },
  async shopify() {
    await import('@shopify/shopify-api/adapters/node');
    const { shopifyApi } = await import('@shopify/shopify-api');
    const shopify = shopifyApi({
      apiKey: 'key',
      apiSecretKey: secret,
      hostName: 'in.example',
      apiVersion: '2026-01',
      isEmbeddedApp: false,
      logger: { level: 0 },
    });
    const given = { headers: { ...headers, 'x-shopify-api-version': '2026-01' } };
    const found = await shopify.webhooks.validate({ rawBody: text, rawRequest: given, rawResponse: {} });
    return found.valid;
  },
  async twilio() {
    const { default: twilio } = await import('twilio');
    const signature = headers['x-twilio-signature'];
    if (headers['content-type'].startsWith('application/x-www-form-urlencoded')) {
      return twilio.validateRequest(secret, signature, url, Object.fromEntries(new URLSearchParams(text)));
    }
    return text === ''
      ? twilio.validateRequest(secret, signature, url, {})
      : twilio.validateRequestWithBody(secret, signature, url, text);
  },
  async line() {
    const { validateSignature } = await import('@line/bot-sdk');
    return validateSignature(raw, secret, headers['x-line-signature']);
  },
  async sendgrid() {
    const { EventWebhook } = (await import('@sendgrid/eventwebhook')).default;
    const judge = new EventWebhook();
    const prefix = 'x-twilio-email-event-webhook';
    const key = judge.convertPublicKeyToECDSA(secret);
    // It joins the time with text, and so fits what is UTF-8 alone.
    return judge.verifySignature(key, raw.toString('utf8'), headers[`${prefix}-signature`], headers[`${prefix}-timestamp`]);
  },
};
// WhatsApp, Messenger and Instagram sign as GitHub does.
judges.whatsapp = judges.messenger = judges.instagram = judges.github;

let good = false;
try {
  good = Boolean(await judges[kind]());
} catch (error) {
  if (error.code === 'ERR_MODULE_NOT_FOUND') throw error;
}
process.stdout.write(JSON.stringify({ good }));
