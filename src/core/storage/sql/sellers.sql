-- insert_seller: a new seller with its balance and tariff category 0.
WITH seller AS (
    INSERT INTO sellers (name, site_id, currency, trm, margin_percent, price_step, warranty_time,
        manufacturing_time_days, stock_quantity, listing_type_id)
    VALUES (%(name)s, %(site_id)s, %(currency)s, %(trm)s, %(margin_percent)s, %(price_step)s, %(warranty_time)s,
        %(manufacturing_time_days)s, %(stock_quantity)s, %(listing_type_id)s)
    RETURNING seller_id
), balance AS (
    INSERT INTO credit_balances (seller_id) SELECT seller_id FROM seller
), tariff AS (
    INSERT INTO tax_categories (seller_id, index, name, rate_percent) SELECT seller_id, 0, 'General', 0 FROM seller
)
SELECT seller_id FROM seller;

-- select_sellers: one seller or all, with their accounts.
SELECT s.seller_id, s.name, s.site_id, s.currency, s.trm, s.margin_percent, s.price_step, s.warranty_time,
    s.manufacturing_time_days, s.stock_quantity, s.listing_type_id, s.created_at,
    coalesce((
        SELECT json_agg(json_build_object('environment', a.environment, 'marketplace_user_id', a.marketplace_user_id,
            'status', a.status, 'nickname', a.nickname) ORDER BY a.environment)
        FROM marketplace_accounts a WHERE a.seller_id = s.seller_id
    ), '[]') AS accounts
FROM sellers s
WHERE %(seller_id)s::bigint IS NULL OR s.seller_id = %(seller_id)s
ORDER BY s.seller_id;

-- update_seller: change the settings that are given.
UPDATE sellers SET
    trm = coalesce(%(trm)s, trm),
    margin_percent = coalesce(%(margin_percent)s, margin_percent),
    price_step = coalesce(%(price_step)s, price_step),
    warranty_time = coalesce(%(warranty_time)s, warranty_time),
    manufacturing_time_days = coalesce(%(manufacturing_time_days)s, manufacturing_time_days),
    stock_quantity = coalesce(%(stock_quantity)s, stock_quantity),
    listing_type_id = coalesce(%(listing_type_id)s, listing_type_id)
WHERE seller_id = %(seller_id)s
RETURNING seller_id;

-- lock_seller: what serialises everything that could pass one of the seller's limits.
SELECT seller_id FROM sellers WHERE seller_id = %(seller_id)s FOR NO KEY UPDATE;

-- select_tax_categories: by index.
SELECT index, name, rate_percent FROM tax_categories WHERE seller_id = %(seller_id)s ORDER BY index;

-- upsert_tax_category: set one.
INSERT INTO tax_categories (seller_id, index, name, rate_percent)
VALUES (%(seller_id)s, %(index)s, %(name)s, %(rate_percent)s)
ON CONFLICT (seller_id, index) DO UPDATE SET name = EXCLUDED.name, rate_percent = EXCLUDED.rate_percent;

-- select_account_overview: what GET /account shows, in one row.
SELECT s.seller_id, s.site_id, s.currency, s.trm, s.margin_percent, s.price_step, s.warranty_time,
    s.manufacturing_time_days, s.stock_quantity, s.listing_type_id,
    b.granted, b.available, b.held, b.used, b.used_test,
    EXISTS (
        SELECT FROM marketplace_accounts a
        WHERE a.seller_id = s.seller_id AND a.environment = %(environment)s AND a.status = 'connected'
    ) AS ml_connected
FROM sellers s JOIN credit_balances b USING (seller_id)
WHERE s.seller_id = %(seller_id)s;
